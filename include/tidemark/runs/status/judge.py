"""What a pipeline's status comes to, and what is to be done: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.errors import LeaseHeld
from tidemark.runs.generations import REWIND
from tidemark.runs.losses import Loss
from tidemark.runs.recorded_runs import FAILED as RUN_FAILED
from tidemark.runs.recorded_runs import HELD as RUN_HELD
from tidemark.runs.status.recent_runs import RecentRun
from tidemark.runs.status.state import PipelineState
from tidemark.runs.status.table_status import TableStatus
from tidemark.runs.unfinished_act import ActKind, PipelineAct
from tidemark.sources.lag import NotAsked
from tidemark.sources.source import Lag
from tidemark.storage.lease.files import LeaseRecord, time_text
from tidemark.storage.lease.rules import LeaseAction, LeaseDecision

# What Airflow calls a run that its schedule started.
_SCHEDULED = "scheduled"
_LONGEST_ERROR = 300


@dataclass(frozen=True)
class Standing:
    """A pipeline's state, and what to do next in a sentence or two."""

    state: PipelineState
    next_step: str


@dataclass(frozen=True)
class HeldLease:
    """A lease that was not given back, and what a run that wants it now would do."""

    record: LeaseRecord
    verdict: LeaseDecision

    @property
    def at_work(self) -> bool:
        """Whoever holds it still works, as far as can be seen from here."""
        return self.verdict.act is LeaseAction.WAIT

    @property
    def summary(self) -> str:
        record = self.record
        return f"run {record.run_id} ({record.purpose}) on {record.host}"


def judge_pipeline(
    name: str,
    lease: HeldLease | None,
    runs: Sequence[RecentRun],
    unpublished: int,
    due: datetime | None,
    losses: Sequence[Loss] = (),
    tables: Sequence[TableStatus] = (),
    source: Lag | NotAsked | None = None,
    unfinished: PipelineAct | None = None,
    clock: Sequence[str] = (),
    published: datetime | None = None,
) -> Standing:
    """The state of a pipeline whose file is good.

    `runs` are the newest ones, newest first; `unpublished` counts changed windows that no publish
    has taken. `due`: a run should have begun since then, by the schedule (None: nobody can tell).
    `losses` is what does not fit what rests on it; of a pipeline at work nobody can tell. `tables`
    say which of their windows fail, `source` what was not read of it and what of that is gone,
    `unfinished` which act ended in the middle, `clock` what does not fit this machine's clock.
    `published`: when the run began that published last, where `runs` has none.
    """
    if lease is not None and lease.at_work:
        since = time_text(lease.record.taken_at)
        return Standing(
            PipelineState.WORKING, f"Nothing: {lease.summary} is at work since {since}."
        )
    if unfinished is not None and unfinished.kind is ActKind.FOLLOWING:
        found = _left_by(name, lease, runs, unpublished, published)
        # What keeps the next run back, or failed the last one, comes before what that was at.
        if found.state in (PipelineState.STOPPED, PipelineState.FAILED):
            return found
        return Standing(
            PipelineState.KILLED,
            f"What the source changed ({unfinished.id}) is being followed, and that was not "
            f"finished. {unfinished.ways_out(name)}",
        )
    if unfinished is not None:
        return Standing(
            PipelineState.STOPPED,
            f"The {unfinished.kind} {unfinished.id} was begun and not finished, and no run starts. "
            f"{unfinished.ways_out(name)}",
        )
    if clock:
        return Standing(
            PipelineState.FAILED,
            f"{' '.join(clock)} Runs stop at that: set the clock that is wrong, or see `tidemark "
            f"accept {name}`.",
        )
    if losses:
        return Standing(PipelineState.STOPPED, " ".join(str(loss) for loss in losses))
    if isinstance(source, Lag) and source.lost:
        return Standing(
            PipelineState.STOPPED,
            "Of what was not read of the source some is gone or changed, and runs stop at it: "
            f"`tidemark accept {name}` tells what it is, and lets them go on with --reason.",
        )
    found = _left_by(name, lease, runs, unpublished, published)
    if found.state is PipelineState.WELL and any(table.replayed for table in tables):
        found = Standing(
            PipelineState.HELD,
            "Bronze has rejects that were replayed, and gold does not yet. "
            f"{_again(name)} brings gold up to it.",
        )
    if found.state is PipelineState.WELL:
        found = _failing(name, tables) or found
    missed = _missed(name, runs, due)
    if missed is None or found.state in (PipelineState.NEW, PipelineState.STOPPED):
        return found
    rest = "" if found.state is PipelineState.WELL else f" {found.next_step}"
    return Standing(PipelineState.OVERDUE, missed + rest)


def _left_by(
    name: str,
    lease: HeldLease | None,
    runs: Sequence[RecentRun],
    unpublished: int,
    published: datetime | None,
) -> Standing:
    """What the last run left behind."""
    if lease is not None and lease.verdict.act is LeaseAction.REFUSE:
        return Standing(
            PipelineState.STOPPED,
            f"{lease.summary} did not come to its end: {lease.verdict.because}.",
        )
    if lease is not None:
        return Standing(
            PipelineState.KILLED,
            f"{lease.summary} did not come to its end ({lease.verdict.because}). {_again(name)} "
            "finishes what it left.",
        )
    # A run that found the lease taken did nothing.
    last = next((run for run in runs if run.error_class != LeaseHeld.__name__), None)
    if last is None and published is not None:
        return Standing(
            PipelineState.UNKNOWN,
            f"`ops/runs` has no run of it, and one that began at {time_text(published)} has "
            "published: was `ops` removed? What was read, late and corrected is not known. Bring "
            f"`ops` back from a backup; else {_again(name).replace('The', 'the')} builds the "
            "ledger anew from what the tables tell, and counts from there.",
        )
    if last is None:
        return Standing(PipelineState.NEW, f"It has not run yet: `tidemark run {name}` runs it.")
    if last.outcome == RUN_FAILED:
        return _failed(name, last)
    if last.outcome == RUN_HELD:
        return Standing(
            PipelineState.HELD, f"Run {last.run} is not published. {_again(name)} publishes it."
        )
    if last.trigger == REWIND:
        return Standing(
            PipelineState.HELD,
            f"The rewind {last.run} took it back. {_again(name)} reads again what came since.",
        )
    if unpublished:
        return Standing(
            PipelineState.HELD,
            f"{unpublished:,} changed windows are not published. {_again(name)} publishes them.",
        )
    return Standing(PipelineState.WELL, "Nothing.")


def _failed(name: str, run: RecentRun) -> Standing:
    first, *more = (run.error or "").split("\n")
    cut = "…" if more or len(first) > _LONGEST_ERROR else ""
    error = f"{run.error_class}: {first[:_LONGEST_ERROR]}{cut}"
    if run.retry_can_help:
        return Standing(
            PipelineState.FAILED, f"{_again(name)} can mend it; the last one failed: {error}"
        )
    return Standing(PipelineState.STOPPED, f"Mend this, then `tidemark run {name}`: {error}")


def _failing(name: str, tables: Sequence[TableStatus]) -> Standing | None:
    """Where gold lacks windows, as a measure of them cannot be computed."""
    failing = [table for table in tables if table.failing.windows]
    if not failing:
        return None
    shown = "; ".join(
        f"{table.failing.windows:,} windows of {table.name} fail and are not in gold, the first "
        f"{table.failing.examples[0]}"
        for table in failing
    )
    return Standing(
        PipelineState.FAILING,
        f"{shown}. All else is published. Mend the measure (`tidemark validate {name}` says "
        "whether the tables can follow) or the rows of bronze.",
    )


def _missed(name: str, runs: Sequence[RecentRun], due: datetime | None) -> str | None:
    """A pipeline is scheduled when one of its recent runs was: others are run by hand."""
    began = next((run.started_at for run in runs if run.trigger != REWIND), None)
    if due is None or began is None or began >= due:
        return None
    if not any(run.trigger == _SCHEDULED for run in runs):
        return None
    return (
        f"Is its Dag paused, or Airflow down? No run began since {time_text(began)}, though its "
        f"schedule names {time_text(due)} and a time after that."
    )


def _again(name: str) -> str:
    return f"The next run (`tidemark run {name}`)"
