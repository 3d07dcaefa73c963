"""Who may take a lease, decided from what its file says. Pure: no clock, no process, no store.

| the lease is | of this machine | of another |
|---|---|---|
| none, or released | take | take |
| of an earlier try (same run and purpose), its processes alive | end them, take over | wait |
| live, its processes alive | wait | wait |
| run out, its processes alive | end them, take over | wait for the margin, take over |
| live or run out, its processes gone | take over | as above |

Where processes are to be ended that may not be the lease's own, `taking.decide` makes it a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from tidemark.storage.lease.files import LeaseRecord, time_text
from tidemark.storage.processes import ProcessMark


@dataclass(frozen=True)
class Holder:
    """Who wants the lease: a run, what it does, and the processes that do it."""

    run_id: str
    purpose: str
    host: str
    machine: str
    processes: tuple[ProcessMark, ...]


class LeaseAction(Enum):
    """What a taker does with the lease that it found."""

    TAKE = "take"
    TAKE_OVER = "take over"
    END_AND_TAKE_OVER = "end its processes and take over"
    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True)
class LeaseDecision:
    """The act, and why, in words that go on after "because"."""

    act: LeaseAction
    because: str


def judge_lease(
    found: LeaseRecord | None, taker: Holder, alive: Sequence[ProcessMark], now: datetime
) -> LeaseDecision:
    """What the taker may do. `alive`: the record's processes that live, if of this machine."""
    if found is None:
        return LeaseDecision(LeaseAction.TAKE, "nobody has held it yet")
    if found.released and found.fence_due:
        return LeaseDecision(
            LeaseAction.TAKE_OVER, "it was released with tables still to be fenced"
        )
    if found.released:
        return LeaseDecision(LeaseAction.TAKE, "it was released")
    if found.machine != taker.machine:
        return _of_another_machine(found, now)
    return _of_this_machine(found, taker, alive, now)


def free_for_others_at(found: LeaseRecord) -> datetime:
    """From when another machine may take it over: one more lease length past its end.

    The margin is for clocks that differ, and for an owner that is slow to notice.
    """
    return found.expires_at + timedelta(seconds=found.seconds)


def _of_another_machine(found: LeaseRecord, now: datetime) -> LeaseDecision:
    free = free_for_others_at(found)
    if now < free:
        return LeaseDecision(
            LeaseAction.WAIT, f"another host may take it over from {time_text(free)} on"
        )
    return LeaseDecision(
        LeaseAction.TAKE_OVER, f"it ran out on {found.host} at {time_text(found.expires_at)}"
    )


def _of_this_machine(
    found: LeaseRecord, taker: Holder, alive: Sequence[ProcessMark], now: datetime
) -> LeaseDecision:
    if not alive:
        return LeaseDecision(LeaseAction.TAKE_OVER, "its processes are gone")
    # Dags of one schedule give their runs the same id: what a run does tells them apart.
    if (found.run_id, found.purpose) == (taker.run_id, taker.purpose):
        return LeaseDecision(LeaseAction.END_AND_TAKE_OVER, "it was of an earlier try of this run")
    if now >= found.expires_at:
        return LeaseDecision(
            LeaseAction.END_AND_TAKE_OVER, f"it ran out at {time_text(found.expires_at)}"
        )
    return LeaseDecision(LeaseAction.WAIT, "it is live")
