"""The gate of a backfill: what it would publish is held to the checks before it is appended.

Behind the append it would be too late: the next publish takes along all of `changes`.
"""

from __future__ import annotations

import pyarrow as pa

from tidemark.gold.plan import plan_publish
from tidemark.gold.recomputed import rows_of_changes
from tidemark.operators.repaired import BACKFILL
from tidemark.quality.planned_rows import TablePublish
from tidemark.quality.validate import Judged
from tidemark.storage.delta.history import VERSION, schema_of
from tidemark.streaming.backfill.backfill import Backfill, pins
from tidemark.streaming.gate import judge_publish


def judge_backfill(plan: Backfill) -> Judged:
    """The verdicts on what a backfill would publish; nothing is written."""
    if plan.nothing_to_publish:
        return Judged(())
    return judge_publish(plan.run, _publish(plan))


def _publish(plan: Backfill) -> TablePublish:
    """The publish as it will be once what differs is appended."""
    run, name = plan.run, plan.table_name
    # A dry run holds no lease: a run may have published since the windows were compared.
    gold = run.warehouse.gold(name).at_version(plan.state.version)
    changes = run.warehouse.changes(name, plan.state.generation).existing()
    schema, next_version = schema_of(changes), changes.version() + 1
    differing = rows_of_changes(
        schema, plan.differing, BACKFILL, plan.state.generation, run.run_id
    ).select(schema.names)
    differing = differing.cast(schema).append_column(
        VERSION, pa.repeat(pa.scalar(next_version, pa.int64()), differing.num_rows)
    )
    return TablePublish(
        name,
        run.operator(name),
        gold,
        plan_publish(plan.state, pins(plan, next_version)),
        pa.concat_tables([plan.pending, differing]),
        run.run_id,
    )
