"""The housekeeping of a pipeline's checkpoints: that of the ingest, and each table's in use.

The life of one that is carried out:
1. take the pipeline's lease, over from one that was killed, but from nothing that lives;
2. list and judge each checkpoint once, and plan (pure);
3. copy to `ops/batches` what a ledger that is built anew needs of the offset logs;
4. remove the files, in the plans' order;
5. append a row for each checkpoint to `ops/upkeep`.
Killed anywhere, all of it can be repeated; the next one removes what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint
from tidemark.checkpoint.housekeeping.housekeep import carry_out_housekeeping
from tidemark.checkpoint.housekeeping.plan_housekeeping import Keep, plan_housekeeping
from tidemark.checkpoint.housekeeping.stock import take_stock
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import CheckpointUnreadable, HousekeepingRefused
from tidemark.ledger.copied_batches import CopiedQuery, copy_batches
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.kept_batches import kept_batches
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.checkpoints_in_use import InUse, checkpoints_in_use
from tidemark.upkeep.record import Kept, record_upkeep


def plan_pipeline(pipeline: Pipeline, settings: Settings, now: datetime) -> tuple[Kept, ...]:
    """What may go from each checkpoint in use; nothing is changed. `now` is in UTC.

    Where a run works meanwhile, a plan may be out of date when it is there.
    """
    warehouse = Warehouse.of(pipeline.name, settings)
    return tuple(kept for kept, _ in _planned(pipeline, settings, warehouse, now))


def housekeep_pipeline(
    pipeline: Pipeline, settings: Settings, run_id: str, now: datetime
) -> tuple[Kept, ...]:
    """Remove what may go, under the pipeline's lease; what was planned for each checkpoint.

    A checkpoint for which it is refused is left as it is, and the others are kept all the same
    (`check_no_housekeeping_refused` tells of it). LeaseHeld where another works on the pipeline.
    """
    with pipeline_lease(pipeline, settings, run_id, "housekeeping", ends_processes=False) as lease:
        warehouse = Warehouse.of(pipeline.name, settings).fenced(lease.check)
        return keep_checkpoints(pipeline, settings, warehouse, run_id, now)


def keep_checkpoints(
    pipeline: Pipeline, settings: Settings, warehouse: Warehouse, run_id: str, now: datetime
) -> tuple[Kept, ...]:
    """Remove what may go, for whoever holds the pipeline's lease already, and has its
    `warehouse` fenced with it."""
    planned = _planned(pipeline, settings, warehouse, now)
    copy_batches(warehouse.batches, [query for _, query in planned if query])
    for kept, _ in planned:
        if kept.plan is not None:
            carry_out_housekeeping(kept.plan, kept.checkpoint.place)
    found = tuple(kept for kept, _ in planned)
    warehouse.fence()
    record_upkeep(warehouse.upkeep, pipeline.name, run_id, now, found)
    return found


def check_no_housekeeping_refused(pipeline: str, kept: tuple[Kept, ...]) -> None:
    """Raise HousekeepingRefused where it was refused for a checkpoint."""
    refused = [(one, one.plan.refused) for one in kept if one.plan and one.plan.refused]
    if refused:
        messages = " ".join(
            f"{one.checkpoint.name} ({one.checkpoint.place.uri}): {why}" for one, why in refused
        )
        raise HousekeepingRefused(
            f"Housekeeping of `{pipeline}` left {len(refused)} of {len(kept)} checkpoints as they "
            f"are. {messages} The others were kept."
        )


def _planned(
    pipeline: Pipeline, settings: Settings, warehouse: Warehouse, now: datetime
) -> list[tuple[Kept, CopiedQuery | None]]:
    """The plans of the checkpoints in use, each with the query whose batches are copied before."""
    batches = kept_batches(pipeline, settings)
    in_use = checkpoints_in_use(pipeline, warehouse)
    return [_plan(one, pipeline, batches, now) for one in in_use]


def _plan(
    one: InUse, pipeline: Pipeline, kept: int, now: datetime
) -> tuple[Kept, CopiedQuery | None]:
    if not one.place.names():
        return Kept(one, None), None
    taken, known = take_stock(one.place, kept), QueryFacts()
    last, logs_from = taken.facts.commits.newest, None
    batches = tuple(b for b in taken.facts.offsets.batches if last is not None and b <= last)
    if one.generation is not None:
        mode = pipeline.tables[one.table].output_mode
        known = QueryFacts(output_mode=mode, keeps_state=one.keeps_state)
        logs_from = first_unpublished(one.place, batches, one.published)
    # The lease says that no run works, so a batch that is not committed is of a dead one.
    keep = Keep(kept, logs_from, nothing_runs=True)
    plan = plan_housekeeping(taken, judge_checkpoint(taken.facts, now, known), keep, now)
    if one.generation is None or plan.refused:
        return Kept(one, plan), None
    query_id = str(taken.facts.query_id)
    query = CopiedQuery(pipeline.name, one.table, one.generation, query_id, one.place, batches)
    return Kept(one, plan), query


def first_unpublished(checkpoint: Checkpoint, batches: Sequence[int], published: int) -> int | None:
    """The oldest batch whose offsets the next repair of late rows reads: the last one of a
    table's query that ended at or before `published`, the version of bronze that gold has.

    `batches` are those whose offsets are there. All count where one cannot be used.
    """
    for batch in reversed(batches):
        try:
            if checkpoint.delta_version(batch) <= published + 1:
                return batch
        except CheckpointUnreadable:
            break
    return batches[0] if batches else None
