"""Is this machine's clock fit to plan a batch by? Asked before a run, or any other writer, writes.

The engine gives a batch the wall clock's time, by which rows are `future` or `too old` and dates of
bronze go; what a run stands for (`--scheduled-time`) is nothing to it. Two clocks are compared with
it: the one by which the last batch was planned, which cannot be later, and the store's, by the time
that it gives the lease's own file. No other file's time is asked, for anybody may set those. On a
local disk the store's clock is this machine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import CheckpointUnreadable, ClockWrong
from tidemark.pipeline.instants import epoch_ms, instant_of, instant_text
from tidemark.sources.notes import AcceptedClock, source_notes, write_source_notes
from tidemark.sources.source import LossAcceptance
from tidemark.storage.lease.held import Clocks

TOLERATED = timedelta(minutes=5)
# No machine that runs this was ever right before it; one without a battery begins in 1970.
_EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)


def check_clock(pipeline: str, ingest: Checkpoint, clocks: Clocks) -> None:
    """Raise ClockWrong, with both times, where the clocks differ by more than five minutes in a way
    that nobody accepted. Nothing is written."""
    if found := clock_faults(ingest, clocks):
        raise ClockWrong(
            f"{' '.join(found)} Nothing was written: rows would be judged by a wrong time. Set the "
            "clock that is wrong (NTP), and run again. Where this machine's is right, `tidemark "
            f'accept {pipeline} --reason "…"` lets runs go on with it.'
        )


def clock_faults(ingest: Checkpoint, clocks: Clocks) -> tuple[str, ...]:
    """What keeps runs from starting, for people, as far as nobody accepted it. Nothing is
    written."""
    last = _last_batch(ingest)
    found = tuple(_faults(last, clocks, None))
    accepted = source_notes(ingest).clock if found else ()
    return tuple(_faults(last, clocks, accepted[-1])) if accepted else found


def accept_clock(ingest: Checkpoint, clocks: Clocks, accepted: LossAcceptance) -> tuple[str, ...]:
    """Let runs go on with this machine's clock beside the last batch's and the store's as they are
    now; what was accepted. Behind the checkpoint's fence; safe to repeat."""
    found, notes = clock_faults(ingest, clocks), source_notes(ingest)
    if found:
        batch, at = _last_batch(ingest) or (None, None)
        note = AcceptedClock(
            batch=batch,
            batch_time=at,
            ahead_of_store=(clocks.own - clocks.store).total_seconds(),
            accepted=accepted.reason,
            by=accepted.by,
            at=accepted.at,
        )
        write_source_notes(ingest, notes.model_copy(update={"clock": (*notes.clock, note)}))
    return found


def _faults(
    last: tuple[int, datetime] | None, clocks: Clocks, accepted: AcceptedClock | None
) -> Iterator[str]:
    own = _text(clocks.own)
    # One that went back since it was accepted is another one.
    is_accepted = (
        accepted is not None
        and (accepted.batch, accepted.batch_time) == (last or (None, None))
        and clocks.own >= accepted.at - TOLERATED
    )
    if last is not None and clocks.own < last[1] - TOLERATED and not is_accepted:
        yield (
            f"This machine's clock says {own}, and the last batch of the source, {last[0]}, was "
            f"planned later, at {_text(last[1])}."
        )
    if last is None and clocks.own < _EARLIEST and not is_accepted:
        yield f"This machine's clock says {own}, which is before {_text(_EARLIEST)}."
    ahead = clocks.own - clocks.store
    known = timedelta(seconds=accepted.ahead_of_store) if accepted is not None else timedelta()
    if abs(ahead) > TOLERATED and abs(ahead - known) > TOLERATED:
        yield f"This machine's clock says {own}, and the store's {_text(clocks.store)}."


def _last_batch(ingest: Checkpoint) -> tuple[int, datetime] | None:
    """The last one that was planned, and its time; None also where the checkpoint is damaged, which
    others tell."""
    try:
        last = ingest.last_batch("offsets")
        return None if last is None else (last, instant_of(ingest.offsets(last).batch_time_ms))
    except (CheckpointUnreadable, OverflowError):
        return None


def _text(instant: datetime) -> str:
    return instant_text(epoch_ms(instant) // 1_000 * 1_000)
