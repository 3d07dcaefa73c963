"""`spark-submit`'s entry for a retraction: arguments in, result written, exit code out.

Exit codes as in `entry.py`. With `--dry-run` it only plans. Asked for no rows, it finishes what was
begun.

The life of a retraction, under the pipeline's lease:
1. find the rows, and refuse what cannot be done (`recompute/retract/refusals.py`);
2. compute what gold of each table would be without them, and hold that to the table's checks;
3. keep the plan, and stop the pipeline: nothing else of it runs until 6;
4. move the rows, by two commits (`streaming/recompute/retraction.py`);
5. each table begins a generation from bronze, the ledger gets a line and `ops/upkeep` a row, all is
   looked at again, and tables of other pipelines that join with it begin a generation too;
6. the pipeline goes on.
Killed anywhere after 3, a repetition finishes what the plan says. An undo is the same act the other
way, without 2: what comes back was published once. Where a run has followed changes of the source,
and a check keeps gold back, a repetition finishes that too (`streaming/recompute/following.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.errors import RetractionRefused, RetractionUnproven
from tidemark.gold.views import write_views
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import KafkaSource
from tidemark.recompute.plans import new_act_id
from tidemark.recompute.retract.change import Retraction, read_retraction
from tidemark.recompute.retract.record import (
    account_for,
    act_of,
    keep_change,
    prove,
    record_retraction,
)
from tidemark.recompute.retract.refusals import (
    check_followed_as_then,
    check_no_other_readers,
    check_not_frozen,
    check_tables_are_there,
    started_tables,
)
from tidemark.recompute.retract.result import RetractResult, retract_lines
from tidemark.runs.acceptance import this_user
from tidemark.runs.contract.check import admit
from tidemark.runs.generations import RETRACT
from tidemark.runs.losses import check_losses
from tidemark.runs.requests import NO_REASON, RetractRequest
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    release_after,
    stop_for,
    unfinished_act,
)
from tidemark.streaming.jobs.act import JobAct, act_main, carried_out, record_act
from tidemark.streaming.jobs.without_rows import (
    WithoutRows,
    begin_generations,
    check_may_look,
    compare,
    hold_to_checks,
)
from tidemark.streaming.recompute.computed import RowsLeftOut
from tidemark.streaming.recompute.following import finish_following
from tidemark.streaming.recompute.retraction import asked_rows, hits_of, move, retracted_rows

_ADVICE = (
    "Nothing was changed. Mend the check, or name other rows; or retract them all the same: the "
    "same command with --accept."
)


@dataclass
class RetractedSoFar(WithoutRows):
    """What a retraction has done so far."""

    change: Retraction | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Retract rows; the exit code. Never raises for an error that it can report."""
    request = RetractRequest.read(argv)
    return act_main(request, RETRACT, retract_once, retract_lines, RetractResult)


def retract_once(act: JobAct[RetractRequest]) -> RetractResult:
    """Retract under the pipeline's lease, or only plan; what happened, errors included."""
    done = RetractedSoFar()
    work = _only_plan if act.asked.dry_run else _work
    result = carried_out(act, RetractResult, done, work)
    if done.begun:
        record_act(act, RETRACT, result, result.change)
    return result


def _only_plan(act: JobAct[RetractRequest], done: RetractedSoFar) -> None:
    check_may_look(act.run, RetractionRefused)
    _plan(act, act.spark(), done)


def _work(act: JobAct[RetractRequest], done: RetractedSoFar) -> None:
    begun = unfinished_act(act.run.warehouse)
    is_following = begun is not None and begun.kind is ActKind.FOLLOWING
    finishes = ActKind.FOLLOWING if is_following else ActKind.RETRACTION
    with act.lease(RETRACT, finishes) as lease:
        act = act.under(lease, done)
        run, progress = act.run, act.progress
        act.copy_lookups()
        spark = act.spark()
        change = _begun(act, spark, done)
        done.begun = True
        if change.follows is not None:
            finish_following(spark, run, change, progress, {}, act.asked.accepted)
            return
        with progress.stage("move rows"), progress.tasks_of(spark):
            move(spark, run, change)
        begin_generations(act, spark, change, done)
        account_for(change, run.warehouse, datetime.now(UTC))
        record_retraction(change, run.warehouse)
        prove(change, run.pipeline, run.warehouse)
        release_after(run.warehouse)
        # One that cannot be computed keeps no retraction from being finished.
        write_views(run.pipeline.tables, run.warehouse)


def _begun(act: JobAct[RetractRequest], spark: SparkSession, done: RetractedSoFar) -> Retraction:
    """What is carried out: planned now, kept and begun, or begun before. RetractionRefused."""
    run, asked = act.run, act.asked
    unfinished = unfinished_act(run.warehouse)
    if unfinished is not None:
        done.change = change = read_retraction(unfinished.folder(run.warehouse))
        if not asked.finishes and not change.is_of_try(asked.run_id):
            raise RetractionRefused(
                f"The retraction {change.id} of {run.pipeline.name} ({change.rows:,} rows "
                f"{change.what}) was begun and not finished. {unfinished.ways_out(change.pipeline)}"
            )
        check_tables_are_there(run, unfinished, change.tables, RetractionUnproven)
        return change
    if asked.finishes:
        raise RetractionRefused(
            f"No retraction of {run.pipeline.name} was begun that would have to be finished. Name "
            "rows: --where, --file or --run. Nothing was changed."
        )
    if not (asked.reason or "").strip():
        raise RetractionRefused(f"{NO_REASON}. Nothing was changed.")
    change = _plan(act, spark, done)
    hold_to_checks(act, RetractResult, done, _ADVICE)
    # A first run of another pipeline may have begun to read bronze while this was planned.
    _check_no_other_readers(run)
    keep_change(change, run.warehouse)
    stop_for(run.warehouse, act_of(change))
    return change


def _plan(act: JobAct[RetractRequest], spark: SparkSession, done: RetractedSoFar) -> Retraction:
    """What an act would do, and what its checks say of it; nothing is written."""
    run, asked, progress = act.run, act.asked, act.progress
    if asked.finishes:
        raise RetractionRefused("Name rows: --where, --file or --run. Nothing was changed.")
    check_losses(run.pipeline, run.warehouse)
    admit(run.pipeline, run.settings)
    bronze = run.warehouse.bronze.open()
    if bronze is None:
        raise RetractionRefused(f"{run.pipeline.name} has not run yet. Nothing was changed.")
    tables, version = started_tables(run), bronze.version()
    with progress.stage("find rows"), progress.tasks_of(spark):
        if asked.undo is None:
            what, condition = asked_rows(spark, run, asked, version)
            hits = hits_of(spark, run, what, condition, version)
        else:
            what, condition = f"of the retraction {asked.undo}", "false"
            hits = retracted_rows(spark, run, asked.undo)
            _check_not_of_the_source(run, asked.undo)
    _check_no_other_readers(run)
    check_not_frozen(run, hits.first)
    planned = new_act_id(run.warehouse, act.started)
    done.change = Retraction(
        id=planned,
        run_id=f"retract__{planned}",
        pipeline=run.pipeline.name,
        planned_at=act.started,
        asked_by=asked.run_id,
        by=asked.by or this_user(),
        reason=(asked.reason or "").strip(),
        what=what,
        condition=condition,
        undoes=asked.undo,
        bronze=version,
        rows=hits.rows,
        dates=hits.dates,
        files=hits.files,
        staying=hits.staying,
        twins=hits.twins,
        tables=tables,
    )
    if asked.undo is None:
        compare(spark, run, RowsLeftOut(condition, hits.held), progress, done)
    return done.change


def _check_no_other_readers(run: Run) -> None:
    check_no_other_readers(
        run,
        "of these rows is not taken back yet. Nothing was changed. Go back to before the rows were "
        "read: `tidemark rewind`.",
    )


def _check_not_of_the_source(run: Run, act: str) -> None:
    """RetractionRefused where the rows of an act are to be as the source has them, and it may have
    changed or deleted them since."""
    undone = read_retraction(PipelineAct(ActKind.RETRACTION, act).folder(run.warehouse))
    if undone.follows is not None:
        raise RetractionRefused(
            f"The source changed the rows of the act {act}, and bronze has what it holds instead. "
            "Nothing was changed. Change them back in the source; the next run follows."
        )
    ingest = run.ingest_checkpoint()
    last = ingest.last_batch("offsets")
    source = run.pipeline.source
    is_followed = isinstance(source, KafkaSource) and source.kafka.key is not None
    since = epoch_ms(undone.planned_at)
    if is_followed and last is not None and ingest.offsets(last).batch_time_ms >= since:
        raise RetractionRefused(
            f"{source.label} was read since the retraction {act}, and may have "
            "changed or deleted these rows. Nothing was changed. Write them again in the source; "
            "the next run follows."
        )
    check_followed_as_then(run, act)


if __name__ == "__main__":
    sys.exit(main())
