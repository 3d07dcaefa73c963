"""What a retraction and an erasure have in common: gold of each table as it is without some rows of
bronze, which is computed and held to the checks before anything is written, and begun later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from tidemark.errors import TidemarkError
from tidemark.gold.migrated import told_row
from tidemark.gold.pins import Published, TableResult
from tidemark.gold.row_values import same_value
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.quality.validate import Judged, check_none_failed
from tidemark.recompute.erase.change import Erasure
from tidemark.recompute.retract.change import ChangedRows, Retraction
from tidemark.recompute.retract.record import left_to_begin
from tidemark.recompute.rewind.record import changed_golds
from tidemark.runs.lookups import why_to_copy
from tidemark.runs.reads_others import note_as_reader
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import check_no_unfinished_act
from tidemark.storage.result_file import Facts
from tidemark.streaming.gate import check_lines, judge_publish, of_all, record_judged
from tidemark.streaming.jobs.act import JobAct, SoFar, result_of
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.computed import Computed, RowsLeftOut, once_gone
from tidemark.streaming.recompute.migration import Migration
from tidemark.streaming.recompute.rebuilt import begin_rebuilt, compute_without, plan_rebuild

_MOST_SHOWN = 10


@dataclass
class WithoutRows(SoFar):
    """What such an act has done so far. `computed` are the windows of each table without the rows,
    by the plan."""

    begun: bool = False
    changed: dict[str, ChangedRows] = field(default_factory=dict)
    computed: dict[str, Computed] = field(default_factory=dict)
    judged: Judged | None = None
    data_docs: str | None = None
    tables: dict[str, TableResult] = field(default_factory=dict)
    published: dict[str, Published] = field(default_factory=dict)

    @property
    def checks(self) -> tuple[str, ...]:
        return check_lines(self.judged, self.begun)


def check_may_look(run: Run, refused: type[TidemarkError]) -> None:
    """`refused` where a dry run cannot tell."""
    check_no_unfinished_act(run.warehouse)
    if because := why_to_copy(run, only_missing=True):
        raise refused(
            f"Nothing was looked at: {because}, and a dry run copies nothing. A run copies it."
        )


def compare(
    spark: SparkSession, run: Run, left_out: RowsLeftOut, progress: Progress, done: WithoutRows
) -> None:
    """What gold of each table would be without the rows, beside what it is, and what its checks
    say of that."""
    judged = []
    for name in run.pipeline.tables:
        with progress.stage(f"{name} without them"), progress.tasks_of(spark):
            done.computed[name] = compute_without(spark, run, name, left_out)
            plan = plan_rebuild(spark, run, name, done.computed[name])
            done.changed[name] = _changed_rows(plan)
            judged.append(judge_publish(run, plan))
    done.judged = of_all(judged)


def hold_to_checks(act: JobAct[Any], kind: type[Facts], done: WithoutRows, advice: str) -> None:
    """Record what the checks said. ChecksFailed where one failed that nobody has accepted."""
    if done.judged is None:
        return
    run, accepted = act.run, act.asked.accepted
    result: Any = result_of(act, kind, done)
    done.data_docs = record_judged(run, result, done.judged, accepted, result.ended_at)
    if accepted is None:
        check_none_failed(run.pipeline.name, run.run_id, done.judged.verdicts, advice)


def begin_generations(
    act: JobAct[Any], spark: SparkSession, change: Retraction | Erasure, done: WithoutRows
) -> None:
    """Of the tables that have not begun theirs yet, and what differs in gold by all of them: of
    what bronze has by now; where the plan computed it, and nothing but the rows has moved since, of
    what it found, as far as that holds (`once_gone`)."""
    run = replace(act.run, run_id=change.run_id)
    for table in left_to_begin(change.tables, run.warehouse):
        with act.progress.stage(f"generation of {table}"), act.progress.tasks_of(spark):
            note_as_reader(run)
            known = done.computed.pop(table, None)
            if known is not None:
                known = once_gone(known, run.warehouse.bronze.existing().version())
            plan = plan_rebuild(spark, run, table, known)
            done.tables[table] = begin_rebuilt(plan, change.planned_at)
    seen = {one.table: one.gold for one in change.tables}
    done.published = changed_golds(seen, run.pipeline, run.warehouse)


def _changed_rows(plan: Migration) -> ChangedRows:
    """Which rows of gold change, before and after, as far as people read them: by the rule of every
    publish for what is the same."""
    operator = plan.operator
    same, row = same_value(operator.values, plan.schema, "w", "b"), same_row(operator, "w", "b")
    identity = ", ".join(
        f'coalesce(w."{name}", b."{name}") AS "{name}"' for name in operator.identity
    )
    values = ", ".join(
        f'b."{name}" AS "before {name}", w."{name}" AS "{name}"' for name in operator.values
    )
    with plan.windows() as connection:
        connection.execute(
            f"""
            CREATE TEMP TABLE changed AS
            SELECT {identity}, {values} FROM written w LEFT JOIN before b ON {row}
            WHERE b."rows" IS NULL OR NOT ({same})
            UNION ALL BY NAME
            SELECT {listed(operator.identity, "b")},
                {", ".join(f'b."{name}" AS "before {name}"' for name in operator.values)}
            FROM before b ANTI JOIN written w ON {row}
            """
        )
        ((windows,),) = connection.execute("SELECT count(*) FROM changed").fetchall()
        first = connection.sql(
            f"FROM changed ORDER BY {listed(operator.identity)} LIMIT {_MOST_SHOWN}"
        ).to_arrow_table()
    return ChangedRows(windows=windows, examples=tuple(_told(first.to_pylist(), operator)))


def _told(rows: list[dict[str, Any]], operator: Operator) -> Iterator[str]:
    for row in rows:
        where, values = told_row(row, operator, operator.values)
        if row["rows"] is None:
            yield f"{where}: goes; it had {row['before rows']:,} rows"
        elif row["before rows"] is None:
            yield f"{where}: is new; it has {row['rows']:,} rows"
        else:
            yield f"{where}: {values}"
