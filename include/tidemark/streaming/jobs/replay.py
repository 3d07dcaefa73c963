"""`spark-submit`'s entry for a replay of rejects: arguments in, result written, exit code out.

Exit codes as in `entry.py`. With `--dry-run` it only judges. Asked for no rejects, it finishes what
was begun, without Spark.

The life of a replay, under the pipeline's lease:
1. judge the rejects, and write what is to be committed (`streaming/recompute/replaying.py`);
2. keep the plan, and stop the pipeline: nothing else of it runs until 5;
3. commit (`recompute/replay/record.py`);
4. the ledger gets a line and `ops/upkeep` a row, and all is looked at again;
5. the pipeline goes on. Gold follows with its next run, as with any rows that come late.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.errors import ReplayRefused
from tidemark.recompute.replay.change import Replay, read_replay
from tidemark.recompute.replay.record import (
    account_for,
    carry_out,
    keep_replay,
    prove,
    record_replay,
)
from tidemark.recompute.replay.result import Outcomes, ReplayResult, replay_lines
from tidemark.runs.requests import NO_REASON_TO_REPLAY, ReplayRequest
from tidemark.runs.unfinished_act import (
    ActKind,
    check_no_unfinished_act,
    release_after,
    stop_for,
    unfinished_act,
)
from tidemark.streaming.jobs.act import JobAct, SoFar, act_main, carried_out
from tidemark.streaming.recompute.replaying import check_may_replay, rejudge, written_replay
from tidemark.upkeep.record import REPLAY


@dataclass
class ReplayedSoFar(SoFar):
    """What a replay has done so far."""

    judged: Outcomes | None = None
    change: Replay | None = None
    begun: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Replay rejects; the exit code. Never raises for an error that it can report."""
    request = ReplayRequest.read(argv)
    return act_main(request, REPLAY, replay_once, replay_lines, ReplayResult)


def replay_once(act: JobAct[ReplayRequest]) -> ReplayResult:
    """Replay under the pipeline's lease, or only judge; what happened, errors included."""
    done = ReplayedSoFar()
    work = _only_judge if act.asked.dry_run else _work
    return carried_out(act, ReplayResult, done, work)


def _only_judge(act: JobAct[ReplayRequest], done: ReplayedSoFar) -> None:
    check_no_unfinished_act(act.run.warehouse)
    _plan(act, done)


def _work(act: JobAct[ReplayRequest], done: ReplayedSoFar) -> None:
    with act.lease(REPLAY, finishes=ActKind.REPLAY) as lease:
        act = act.under(lease, done)
        run = act.run
        change = _begun(act, done)
        if change is None:
            return
        done.begun = True
        with act.progress.stage("move rejects"):
            carry_out(change, run.warehouse)
        account_for(change, run.warehouse, datetime.now(UTC))
        record_replay(change, run.warehouse)
        prove(change, run.pipeline, run.warehouse)
        release_after(run.warehouse)


def _begun(act: JobAct[ReplayRequest], done: ReplayedSoFar) -> Replay | None:
    """What is carried out: planned now, kept and begun, or begun before; None where no reject is
    accepted. ReplayRefused."""
    run, asked = act.run, act.asked
    unfinished = unfinished_act(run.warehouse)
    if unfinished is not None:
        done.change = change = read_replay(unfinished.folder(run.warehouse))
        if not asked.finishes:
            raise ReplayRefused(
                f"The replay {change.id} of {run.pipeline.name} ({change.rows:,} rejects "
                f"{change.what}) was begun and not finished. {unfinished.ways_out(change.pipeline)}"
            )
        return change
    if not asked.finishes and not (asked.reason or "").strip():
        raise ReplayRefused(f"{NO_REASON_TO_REPLAY}. Nothing was changed.")
    planned = _plan(act, done)
    if planned is not None:
        keep_replay(planned, run.warehouse)
        stop_for(run.warehouse, planned.act)
    return planned


def _plan(act: JobAct[ReplayRequest], done: ReplayedSoFar) -> Replay | None:
    """What rejects come to, told in `done`; and, of what is no dry run, the plan, with its files
    written. None where nothing is to be changed."""
    run, asked, progress = act.run, act.asked, act.progress
    if asked.finishes:
        raise ReplayRefused(
            f"No replay of {run.pipeline.name} was begun that would have to be finished. Name "
            "rejects: --from or --again. Nothing was changed."
        )
    check_may_replay(run, asked.of)
    spark = act.spark()
    with progress.stage("judge rejects"), progress.tasks_of(spark):
        found = rejudge(spark, run, asked, act.started)
    try:
        done.judged = found.judged
        if asked.dry_run or not found.judged.accepted:
            return None
        with progress.stage("write rows"), progress.tasks_of(spark):
            done.change = written_replay(spark, run, asked, found, act.started)
        return done.change
    finally:
        found.release()


if __name__ == "__main__":
    sys.exit(main())
