"""Take a lease, by the rules or by force. What is taken is not renewed yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemark.errors import LeaseHeld, LeaseUnreadable, TidemarkError
from tidemark.storage.lease.files import LeaseFolder, LeaseRecord, TakenFrom, described
from tidemark.storage.lease.held import Clock, Lease, OnLapse
from tidemark.storage.lease.rules import Act, Holder, LeaseDecision, judge_lease
from tidemark.storage.processes import ProcessMark, end_processes, is_alive, own_line

# Between SIGTERM and SIGKILL for the processes of the owner before.
GRACE = 5.0


def living(record: LeaseRecord, machine: str) -> tuple[ProcessMark, ...]:
    """The lease's processes that are alive; none can be seen from another machine."""
    if record.machine != machine:
        return ()
    return tuple(mark for mark in record.processes if is_alive(mark))


def take(
    files: LeaseFolder,
    holder: Holder,
    seconds: float,
    may: frozenset[Act],
    on_lapse: OnLapse,
    now: Clock,
) -> Lease:
    """Take the lease if the rules give an act that is in `may`; LeaseHeld otherwise.

    Processes are ended before the number is taken: the new owner never works beside them.
    """
    found = files.newest()
    verdict = _verdict(found, holder, now())
    if found and verdict.act is Act.WAIT:
        raise LeaseHeld(_held_text(files, found, verdict))
    if found and verdict.act not in may:
        raise LeaseHeld(_not_for_this_text(files, found, verdict, holder))
    if found and verdict.act is Act.END_AND_TAKE_OVER:
        _end(files, found, living(found, holder.machine))
    from_whom = _taken_from(found, verdict) if found and verdict.act is not Act.TAKE else None
    number = found.number + 1 if found else 1
    return _create(files, holder, number, seconds, from_whom, on_lapse, now)


def take_by_force(
    files: LeaseFolder, holder: Holder, seconds: float, on_lapse: OnLapse, now: Clock
) -> Lease:
    """Take the lease whatever its file says, and even if nobody can read it."""
    number = files.highest()
    verdict = LeaseDecision(Act.TAKE_OVER, "it was released by force")
    try:
        from_whom = _taken_from(files.read(number), verdict)
    except LeaseUnreadable:
        from_whom = TakenFrom(number=number, run_id="?", purpose="?", host="?",
                              because="its file could not be read")  # fmt: skip
    return _create(files, holder, number + 1, seconds, from_whom, on_lapse, now)


def _verdict(found: LeaseRecord | None, holder: Holder, now: datetime) -> LeaseDecision:
    alive = living(found, holder.machine) if found else ()
    if found and not found.released and {mark.pid for mark in alive} & set(own_line()):
        return LeaseDecision(Act.WAIT, "that is this process, or one that started it")
    return judge_lease(found, holder, alive, now)


def _create(
    files: LeaseFolder,
    holder: Holder,
    number: int,
    seconds: float,
    took_over: TakenFrom | None,
    on_lapse: OnLapse,
    now: Clock,
) -> Lease:
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
    if not files.create(record):
        raise LeaseHeld(_lost_race_text(files))
    return lease


def _end(files: LeaseFolder, found: LeaseRecord, alive: tuple[ProcessMark, ...]) -> None:
    if remaining := end_processes(alive, GRACE):
        pids = ", ".join(str(mark.pid) for mark in remaining)
        raise LeaseHeld(
            f"The lease {files.uri} may be taken over from {described(found)}, but its process "
            f"{pids} could not be ended. Nothing was written. End it, then try again."
        )


def _taken_from(found: LeaseRecord, verdict: LeaseDecision) -> TakenFrom:
    return TakenFrom(
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
