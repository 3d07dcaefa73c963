"""The lease of a pipeline: of all that would write to it, one run works at a time.

The life of a lease:
1. read the newest file of the folder, and judge whether it may be taken (`rules.py`);
2. end the processes of the owner before, where the rules say so (`taking.py`);
3. create the next number: of several takers one succeeds (`files.py`);
4. after a takeover, fence the tables, before anything else is written;
5. work, while it is renewed in the background (`held.py`); halt when it is lost;
6. release it. Killed anywhere, the file stays, and the next taker judges it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tidemark.errors import LeaseUnreadable, TidemarkError
from tidemark.storage.files import Options
from tidemark.storage.lease.files import LeaseFolder, LeaseRecord
from tidemark.storage.lease.halt import halt
from tidemark.storage.lease.held import Clock, Lease, OnLapse
from tidemark.storage.lease.rules import Holder, LeaseAction
from tidemark.storage.lease.taking import living, take, take_by_force
from tidemark.storage.processes import mark_of, noted, spark_parent, this_machine

__all__ = ["Holder", "Lease", "LeaseRecord", "hold_lease", "living", "read_lease",
           "release_lease", "this_process"]  # fmt: skip

SECONDS = 60.0
Fence = Callable[[int], object]
_IN_ORDER = frozenset({LeaseAction.TAKE})
_ANY_WAY = frozenset({LeaseAction.TAKE, LeaseAction.TAKE_OVER, LeaseAction.END_AND_TAKE_OVER})
_ENDING_NOTHING = frozenset({LeaseAction.TAKE, LeaseAction.TAKE_OVER})


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def this_process(run_id: str, purpose: str) -> Holder:
    """This process as a holder, with the JVM that started it where spark-submit did.

    `purpose` is a word for people: stream, publish, backfill, housekeeping.
    """
    own = mark_of(os.getpid())
    assert own is not None
    jvm = spark_parent()
    processes = tuple(noted(mark) for mark in (own, jvm) if mark)
    return Holder(run_id, purpose, platform.node(), this_machine(), processes)


@contextmanager
def hold_lease(
    folder: str,
    holder: Holder,
    options: Options,
    seconds: float = SECONDS,
    on_takeover: Fence | None = None,
    on_lapse: OnLapse = halt,
    now: Clock = utc_now,
    ends_processes: bool = True,
) -> Iterator[Lease]:
    """Hold the lease of `folder` for the block, renewed every third of `seconds`.

    `on_takeover` fences the tables against the owner before (`delta/fence.py`); it is called
    with the lease's number while the lease is held, and before anything else is written. Where it
    returns tables that it left, the next taker is told to fence again.
    Without it (a look before a job) nothing is taken over; unless it `ends_processes`
    (housekeeping, repairs do not), nothing whose processes live. `on_lapse` is called from another
    thread when the lease is lost; where it returns, `check` and the end of the block raise.

    Raises LeaseHeld where another holds it, LeaseLeft where it may not be taken over so; LeaseLost
    at the end of a block during which it was lost; LeaseUnreadable. A block that ends by one of our
    errors must have ended its writers; one that ends by another makes the next taker fence.
    """
    files = LeaseFolder(folder, options)
    taking_over = _ANY_WAY if ends_processes else _ENDING_NOTHING
    may = taking_over if on_takeover else _IN_ORDER
    lease = take(files, holder, seconds, may, on_lapse, now)
    with _kept(lease, on_takeover):
        yield lease


def read_lease(folder: str, options: Options) -> LeaseRecord | None:
    """The lease as its file says; None where nobody has held it yet. Raises LeaseUnreadable."""
    return LeaseFolder(folder, options).newest()


def is_held(folder: str, options: Options) -> bool:
    """Does somebody hold the lease, or did who held it die? Raises LeaseUnreadable."""
    record = read_lease(folder, options)
    return record is not None and not record.released


def release_lease(
    folder: str,
    holder: Holder,
    options: Options,
    on_takeover: Fence,
    force: bool = False,
) -> Lease | None:
    """Release the lease in the place of its owner; None where there was nothing to release.

    It is taken over, the tables are fenced, and it is released. Ends no process: LeaseHeld
    while the owner's live, or may live on another machine. With `force` whatever the file says:
    an owner that still works loses it, its commits in flight fail, and it halts when it looks.
    """
    files = LeaseFolder(folder, options)
    if _is_free(files, force):
        return None
    if force:
        lease = take_by_force(files, holder, SECONDS, halt, utc_now)
    else:
        lease = take(files, holder, SECONDS, _ENDING_NOTHING, halt, utc_now)
    with _kept(lease, on_takeover):
        return lease


def _is_free(files: LeaseFolder, force: bool) -> bool:
    try:
        found = files.newest()
    except LeaseUnreadable:
        if force:
            return False
        raise
    return found is None or (found.released and not found.fence_due)


@contextmanager
def _kept(lease: Lease, on_takeover: Fence | None) -> Iterator[None]:
    """Renew the lease for the block, the tables fenced first where it was taken over."""
    lease.keep()
    in_order = False
    try:
        lease.remove_lower()
        if lease.took_over and on_takeover and not on_takeover(lease.number):
            lease.tables_are_fenced()
        yield
        in_order = True
    except TidemarkError:
        in_order = True
        raise
    finally:
        lease.give_back(in_order)
    lease.raise_if_lost()
