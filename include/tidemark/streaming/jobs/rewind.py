"""`spark-submit`'s entry for a rewind of a pipeline: arguments in, result written, exit code out.

Exit codes as in `entry.py`. With `--dry-run` it only plans. Without `--to-run` and `--undo` it
finishes the rewind that was begun. Spark computes the tables' new generations; all before that is
`recompute/rewind`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.errors import RewindRefused, TidemarkError
from tidemark.gold.compared import Compared
from tidemark.gold.pins import Published, TableResult
from tidemark.gold.plan import noted_name
from tidemark.gold.views import write_views
from tidemark.operators.operator import BRONZE
from tidemark.operators.repaired import MIGRATION
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import find_pipeline
from tidemark.recompute.rewind.apply import keep_backup, left_to_begin, prove, take_back
from tidemark.recompute.rewind.change import PipelineChange, Reader, read_change
from tidemark.recompute.rewind.plan import is_of, planned
from tidemark.recompute.rewind.record import (
    changed_golds,
    record_rewind,
    settle_lines,
)
from tidemark.recompute.rewind.result import LeftReader, RewindResult, rewind_lines
from tidemark.runs.generations import REWIND
from tidemark.runs.reads_others import note_as_reader
from tidemark.runs.requests import NO_REASON_WITHOUT, MigrationRequest, RewindRequest
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    release_after,
    rewind_folder,
    stop_for,
    unfinished_act,
)
from tidemark.storage.delta.notes import RewoundNote, note_of
from tidemark.streaming.jobs.act import JobAct, SoFar, act_main, carried_out, record_act
from tidemark.streaming.jobs.migrate import migrate_once
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.rebuilt import begin_rebuilt, plan_rebuild


@dataclass
class RewindSoFar(SoFar):
    """What a rewind has done so far."""

    change: PipelineChange | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    backup: str | None = None
    found: dict[str, Compared] = field(default_factory=dict)
    tables: dict[str, TableResult] = field(default_factory=dict)
    changed: dict[str, Published] = field(default_factory=dict)
    left: tuple[LeftReader, ...] = ()


def main(argv: Sequence[str] | None = None) -> int:
    """Rewind a pipeline; the exit code. Never raises for an error that it can report."""
    request = RewindRequest.read(argv)
    return act_main(request, REWIND, rewind_once, rewind_lines, RewindResult)


def rewind_once(act: JobAct[RewindRequest]) -> RewindResult:
    """Rewind under the pipeline's lease, or only plan; what happened, errors included."""
    done = RewindSoFar()
    work = _planned if act.asked.dry_run else _work
    result = carried_out(act, RewindResult, done, work)
    if done.backup is not None:
        record_act(act, REWIND, result, result.change)
    return result


def _work(act: JobAct[RewindRequest], done: RewindSoFar) -> None:
    with act.lease(REWIND, finishes=ActKind.REWIND) as lease:
        act = act.under(lease, done)
        run, progress = act.run, act.progress
        # The generations are computed with them: one that is broken is told before anything goes.
        act.copy_lookups()
        change = _begun(act, done)
        done.backup = rewind_folder(run.warehouse, change.id).uri
        with progress.stage("take back"):
            take_back(change, run.warehouse, lease.number)
        spark = act.spark()
        rewinding = replace(run, run_id=change.run_id)
        for table in left_to_begin(change, run.warehouse):
            with progress.stage(f"generation of {table}"), progress.tasks_of(spark):
                _begin_generation(spark, rewinding, table, change.planned_at, done)
        seen = {one.table: one.back.seen if one.back else None for one in change.golds}
        done.changed = changed_golds(seen, run.pipeline, run.warehouse)
        settle_lines(change, run.pipeline, run.warehouse)
        record_rewind(change, run.warehouse)
        prove(change, run.pipeline, run.warehouse, datetime.now(UTC))
        done.left = begin_readers(act, change)
        release_after(run.warehouse)
        # One that cannot be computed keeps no rewind from being finished.
        write_views(run.pipeline.tables, run.warehouse)
    if done.left:
        raise _readers_left(run, done)


def _begun(act: JobAct[RewindRequest], done: RewindSoFar) -> PipelineChange:
    """What is carried out: planned now, backed up and begun, or begun before. RewindRefused."""
    run, asked = act.run, act.asked
    unfinished = unfinished_act(run.warehouse)
    if unfinished is not None:
        change = read_change(unfinished.folder(run.warehouse))
        if is_of(change, asked):
            done.change = change
            return change
        if asked.undo is None:
            raise RewindRefused(
                f"{run.pipeline.name} was to go back to {change.to}, and that was not finished. "
                f"Finish it: `tidemark rewind {run.pipeline.name} --apply`. Or take it back: "
                f"--undo {unfinished.id}. Nothing was changed."
            )
    if asked.lacks_reason:
        raise RewindRefused(f"{NO_REASON_WITHOUT}. Nothing was changed.")
    change = _planned(act, done)
    keep_backup(change, run.warehouse)
    stop_for(run.warehouse, PipelineAct(ActKind.REWIND, change.id))
    return change


def _planned(act: JobAct[RewindRequest], done: RewindSoFar) -> PipelineChange:
    plan = planned(act.run.pipeline, act.run.settings, act.asked, act.started)
    done.change, done.notes, done.refused = plan.change, plan.notes, plan.refused
    if plan.refused:
        raise RewindRefused(
            f"{plan.change.pipeline} does not go back to {plan.change.to}. Nothing was changed. "
            f"{' '.join(plan.refused)}"
        )
    return plan.change


def _begin_generation(
    spark: SparkSession, run: Run, table: str, planned_at: datetime, done: RewindSoFar
) -> None:
    """Begin a generation of a table without its checks: these values were published once."""
    note_as_reader(run)
    plan = plan_rebuild(spark, run, table)
    done.found[table] = plan.compared()
    done.tables[table] = begin_rebuilt(plan, planned_at)


def _readers_left(run: Run, done: RewindSoFar) -> TidemarkError:
    commands = ", ".join(f"`{one.command}`" for one in done.left)
    return RewindRefused(
        f"{run.pipeline.name} has gone back, and its runs go on. But tables of other pipelines "
        f"that join with it could not begin anew, and their runs stop until they do: {commands}."
    )


def begin_readers(act: JobAct[RewindRequest], change: PipelineChange) -> tuple[LeftReader, ...]:
    """Tables of other pipelines that join with a bronze which went back: each begins a generation,
    under the lease of its pipeline. Those that could not begin one.

    Their own bronze stays as it is, and what is closed in them stays closed: it is computed again
    from what both bronzes hold now, and corrected as the rows come again.
    """
    back_at = _back_at(act.run, change)
    if back_at is None:
        return ()
    left = []
    for reader in change.readers:
        why = _begin(act, change, reader, back_at)
        if why is not None:
            left.append(LeftReader(**reader.model_dump(), why=why))
    return tuple(left)


def _back_at(run: Run, change: PipelineChange) -> int | None:
    """The version by which bronze went back; None where it has not."""
    for commit in run.warehouse.bronze.existing().history():
        note = note_of(commit)
        if isinstance(note, RewoundNote) and note.id == change.id:
            return int(commit["version"])
    return None


def _begin(
    act: JobAct[RewindRequest], change: PipelineChange, reader: Reader, back_at: int
) -> str | None:
    run = act.run
    try:
        pipeline = find_pipeline(reader.pipeline, run.settings)
    except TidemarkError as error:
        return str(error)
    if reader.table not in pipeline.tables:
        return f"the file of {reader.pipeline} has no such table any more"
    now = datetime.now(UTC)
    other = Run(
        pipeline,
        run.settings,
        f"{change.run_id}__{reader.table}",
        epoch_ms(now),
        MIGRATION,
        by=run.by,
        dag=run.dag,
    )
    if _reads_from(other, reader.table, run) >= back_at:
        return None
    act.progress.say(f"{reader.table} of {reader.pipeline} joins with it, and begins a generation")
    request = MigrationRequest(pipeline=pipeline.name, table=reader.table, rebuild=True)
    done = migrate_once(
        JobAct(other, request, Progress(pipeline.name), now, act.session, act.on_lapse)
    )
    return None if done.error is None else done.error.message


def _reads_from(other: Run, table: str, run: Run) -> int:
    """The version of the bronze that gold of a reader stands for; -1 for none."""
    gold = other.warehouse.gold(table).open()
    if gold is None:
        return -1
    identity = str(run.warehouse.bronze.existing().metadata().id)
    name = noted_name(f"{BRONZE}/{run.pipeline.name}", identity)
    version = gold.transaction_version(name)
    return -1 if version is None else version


if __name__ == "__main__":
    sys.exit(main())
