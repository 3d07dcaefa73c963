"""What a retraction and an erasure have in common: gold of each table as it is without some rows of
bronze, which is computed and held to the checks before anything is written, and begun later."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from tidemark.gold.pins import Published, TableResult
from tidemark.quality.validate import Judged, check_none_failed
from tidemark.recompute.retract.change import ChangedRows
from tidemark.recompute.retract.changed import changed_rows
from tidemark.runs.lookups import why_to_copy
from tidemark.runs.reads_others import note_as_reader
from tidemark.runs.run import Run
from tidemark.storage.result_file import Facts
from tidemark.streaming.gate import check_lines, judge_publish, of_all, record_judged
from tidemark.streaming.jobs.act import JobAct, SoFar, result_of
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.computed import Computed, RowsLeftOut, once_gone
from tidemark.streaming.recompute.rebuilt import begin_rebuilt, compute_without, plan_rebuild


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


def why_not_looked_at(run: Run) -> str | None:
    """Why a dry run cannot tell; None: it can."""
    because = why_to_copy(run, only_missing=True)
    return because and (
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
            done.changed[name] = changed_rows(plan)
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


def begin_generation(
    spark: SparkSession, run: Run, table: str, planned_at: datetime, done: WithoutRows
) -> None:
    """Of what bronze has by now; where the plan computed it, and nothing but the rows has moved
    since, of what it found, as far as that holds (`once_gone`)."""
    note_as_reader(run)
    known = done.computed.pop(table, None)
    if known is not None:
        known = once_gone(known, run.warehouse.bronze.existing().version())
    done.tables[table] = begin_rebuilt(plan_rebuild(spark, run, table, known), planned_at)
