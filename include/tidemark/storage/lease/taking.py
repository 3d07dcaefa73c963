"""Take a lease, by the rules or by force. What is taken is not renewed yet."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from tidemark.errors import LeaseHeld, LeaseLeft, LeaseUnreadable, TidemarkError
from tidemark.storage.files import FileMissing
from tidemark.storage.lease.files import (
    HIGHEST_NUMBER,
    LeaseFolder,
    LeaseRecord,
    PreviousHolder,
    described,
)
from tidemark.storage.lease.held import Clock, Lease, OnLapse
from tidemark.storage.lease.rules import Holder, LeaseAction, LeaseDecision, judge_lease
from tidemark.storage.processes import (
    ProcessMark,
    end_processes,
    is_alive,
    own_line,
    why_not_to_end,
)

# Between SIGTERM and SIGKILL for the processes of the owner before.
GRACE = 5.0
# A publish or a look holds a lease for less: such a one is waited for.
SHORTLY = 1.0
_SECONDS_BETWEEN_LOOKS = 0.05
_NOT_ENDED = (
    "it may be taken over, but {}, so nothing is signalled. End what is the run's, or, when "
    "nothing works on the pipeline, `tidemark lease release --force PIPELINE`"
)


def living(record: LeaseRecord, machine: str) -> tuple[ProcessMark, ...]:
    """The lease's processes that are alive; none can be seen from another machine."""
    if record.machine != machine:
        return ()
    return tuple(mark for mark in record.processes if is_alive(mark))


def take(
    files: LeaseFolder,
    holder: Holder,
    seconds: float,
    may: frozenset[LeaseAction],
    on_lapse: OnLapse,
    now: Clock,
) -> Lease:
    """Take the lease if the rules give an act that is in `may`; LeaseLeft where they give another,
    LeaseHeld where another holds it for a second on.

    Processes are ended before the number is taken: the new owner never works beside them.
    """
    until = time.monotonic() + SHORTLY
    while True:
        try:
            return _take_now(files, holder, seconds, may, on_lapse, now)
        except LeaseHeld as held:
            if isinstance(held, LeaseLeft) or time.monotonic() >= until:
                raise
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _take_now(
    files: LeaseFolder,
    holder: Holder,
    seconds: float,
    may: frozenset[LeaseAction],
    on_lapse: OnLapse,
    now: Clock,
) -> Lease:
    found = files.newest()
    verdict = decide(found, holder, now())
    if found and verdict.act in (LeaseAction.WAIT, LeaseAction.REFUSE):
        raise LeaseHeld(_held_text(files, found, verdict))
    if found and verdict.act not in may:
        raise LeaseLeft(_not_for_this_text(files, found, verdict, holder))
    if found and verdict.act is LeaseAction.END_AND_TAKE_OVER:
        _end(files, found, living(found, holder.machine))
    from_whom = (
        _taken_from(found, verdict) if found and verdict.act is not LeaseAction.TAKE else None
    )
    number = found.number + 1 if found else 1
    return _create(files, holder, number, seconds, from_whom, on_lapse, now)


def take_by_force(
    files: LeaseFolder, holder: Holder, seconds: float, on_lapse: OnLapse, now: Clock
) -> Lease:
    """Take the lease whatever its file says, and even if nobody can read it."""
    number = files.highest()
    verdict = LeaseDecision(LeaseAction.TAKE_OVER, "it was released by force")
    try:
        from_whom = _taken_from(files.read(number), verdict)
    except (LeaseUnreadable, FileMissing):
        from_whom = PreviousHolder(number=number, run_id="?", purpose="?", host="?",
                              because="its file could not be read")  # fmt: skip
    return _create(files, holder, number + 1, seconds, from_whom, on_lapse, now)


def decide(found: LeaseRecord | None, holder: Holder, now: datetime) -> LeaseDecision:
    """What the holder would do with this lease now, its processes looked at.

    A lease file may have been damaged or written by anybody: a process that it names is ended only
    if it is of this user, and has the start and the command line that the lease's owner noted.
    """
    alive = living(found, holder.machine) if found else ()
    if found and not found.released and {mark.pid for mark in alive} & set(own_line()):
        return LeaseDecision(LeaseAction.WAIT, "that is this process, or one that started it")
    decision = judge_lease(found, holder, alive, now)
    others = [f"process {mark.pid} {why}" for mark in alive if (why := why_not_to_end(mark))]
    if decision.act is LeaseAction.END_AND_TAKE_OVER and others:
        return LeaseDecision(LeaseAction.REFUSE, _NOT_ENDED.format(", ".join(others)))
    return decision


def _create(
    files: LeaseFolder,
    holder: Holder,
    number: int,
    seconds: float,
    took_over: PreviousHolder | None,
    on_lapse: OnLapse,
    now: Clock,
) -> Lease:
    if number > HIGHEST_NUMBER:
        raise LeaseUnreadable(
            f"The lease {files.uri} has no number left, so no run gave its last one. Nothing was "
            "written. When you are sure that nothing works on the pipeline, remove that folder."
        )
    at = now()
    record = LeaseRecord(
        number=number,
        run_id=holder.run_id,
        purpose=holder.purpose,
        host=holder.host,
        machine=holder.machine,
        processes=holder.processes,
        seconds=seconds,
        taken_at=at,
        renewed_at=at,
        expires_at=at + timedelta(seconds=seconds),
        fence_due=took_over is not None,
        took_over=took_over,
    )
    # Its monotonic end counts from here, before the request.
    lease = Lease(files, record, on_lapse, now)
    if not lease.take():
        raise LeaseHeld(_lost_race_text(files))
    return lease


def _end(files: LeaseFolder, found: LeaseRecord, alive: tuple[ProcessMark, ...]) -> None:
    if remaining := end_processes(alive, GRACE):
        pids = ", ".join(str(mark.pid) for mark in remaining)
        raise LeaseHeld(
            f"The lease {files.uri} may be taken over from {described(found)}, but its process "
            f"{pids} could not be ended. Nothing was written. End it, then try again."
        )


def _taken_from(found: LeaseRecord, verdict: LeaseDecision) -> PreviousHolder:
    return PreviousHolder(
        number=found.number,
        run_id=found.run_id,
        purpose=found.purpose,
        host=found.host,
        because=verdict.because,
    )


def _held_text(files: LeaseFolder, found: LeaseRecord, verdict: LeaseDecision) -> str:
    return (
        f"The lease {files.uri} is held by {described(found)} ({verdict.because}). "
        "Nothing was written. Try again when it has ended; `tidemark lease show` tells more."
    )


def _not_for_this_text(
    files: LeaseFolder, found: LeaseRecord, verdict: LeaseDecision, holder: Holder
) -> str:
    return (
        f"The lease {files.uri} was not released by {described(found)}; {verdict.because}. "
        f"`{holder.purpose}` may not {verdict.act.value}; the next run of the pipeline does. "
        "Nothing was written."
    )


def _lost_race_text(files: LeaseFolder) -> str:
    try:
        winner = files.newest()
        who = described(winner) if winner else "another run"
    except TidemarkError:
        who = "another run"
    return (
        f"The lease {files.uri} is held by {who}, which took it at the same moment. "
        "Nothing was written. Try again when it has ended."
    )
