"""A lease while it is held: renewed in the background, checked by the writer, given back.

Two threads, because a store that does not answer must not hide that the lease has run out: one
renews every third of the lease's length, the other watches its end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Event, Lock, RLock, Thread

from tidemark.commit_point import commit_point
from tidemark.errors import LeaseLost, TidemarkError
from tidemark.storage.lease.files import (
    LeaseFolder,
    LeaseRecord,
    PreviousHolder,
    described,
    time_text,
)

Clock = Callable[[], datetime]
OnLapse = Callable[[LeaseLost], object]
# After a renewal that failed, and between looks at the wall clock, which may jump.
_SECONDS_BETWEEN_TRIES = 1.0


@dataclass(frozen=True)
class Clocks:
    """What time it is by this machine's clock and by the store's, in UTC: as far apart as they are
    for sure."""

    own: datetime
    store: datetime


class Lease:
    """The lease that this process holds, from `hold_lease`.

    It ends for its owner at the first of: the end by the wall clock, the end by the monotonic
    clock, a higher number in the folder, its file gone. Once lost it is never held again.
    """

    def __init__(
        self, files: LeaseFolder, record: LeaseRecord, on_lapse: OnLapse, now: Clock
    ) -> None:
        self._files, self._record, self._on_lapse, self._now = files, record, on_lapse, now
        self._found: Mapping[int, datetime] = {}
        self._deadline = time.monotonic() + record.seconds
        self._done, self._writing, self._losing = Event(), RLock(), Lock()
        self._lost: LeaseLost | None = None
        self._trouble = ""
        self._renewing = Thread(target=self._renew_on, name="lease renewal", daemon=True)
        self._watching = Thread(target=self._watch, name="lease watch", daemon=True)

    @property
    def number(self) -> int:
        """Its number: higher than that of every lease before it."""
        return self._record.number

    @property
    def took_over(self) -> PreviousHolder | None:
        """Whom it was taken over from; None where it was free."""
        return self._record.took_over

    def clocks(self) -> Clocks:
        """By the time that the store gave the lease's own file when it was taken. The same twice
        where that lies between what this machine's clock said before it was written, and says
        now."""
        before, written = self._record.taken_at, self._found.get(self.number)
        now = self._now()
        if written is None:
            return Clocks(now, now)
        # Stores tell whole seconds.
        early = max(timedelta(0), before - written - timedelta(seconds=1))
        return Clocks(now, now - early if early else max(now, written))

    def check(self) -> None:
        """Raise LeaseLost unless this process holds the lease now. Lists the folder: a few ms.

        To be called between reading the version to commit on and the commit: then a takeover
        before the call is seen here, and one after it changes the version.
        """
        if self._lost:
            raise self._lost
        if self._left() <= 0:
            raise self._lapsed()
        self._refuse_other()

    def take(self) -> bool:
        """Create its file; False where another was first. For `hold_lease`."""
        found = self._files.create(self._record)
        self._found = found or {}
        return found is not None

    def keep(self) -> None:
        """Start to renew it; for `hold_lease`, right after it was taken."""
        self._renewing.start()
        self._watching.start()

    def remove_lower(self) -> None:
        """Remove the files of the leases before; for `hold_lease`."""
        self._files.remove_below(self.number, self._found)

    def go_along(self, move: Callable[[], object], folder: str) -> None:
        """Go on at the place to which `move` brings the lease's own folder: no renewal is between
        both."""
        with self._writing:
            self.check()
            move()
            self._files = replace(self._files, uri=folder)

    @commit_point(
        "fence noted",
        after_a_kill="before: the next run fences once more; after: as any lease that was left",
    )
    def tables_are_fenced(self) -> None:
        """Note that no writer before this lease can commit any more."""
        self._rewrite(fence_due=False)

    @commit_point(
        "lease released",
        after_a_kill="before: a lease whose processes are gone; after: a free lease",
    )
    def give_back(self, in_order: bool) -> None:
        """Stop renewing, and release the lease if it is still this process's.

        Out of order (an interrupt, an error that nobody foresaw) something of this process may
        still write, so the next taker is told to fence. A lease that cannot be released is said
        on stderr, and runs out by itself.
        """
        self._done.set()
        # A renewal that hangs may finish later: it would only keep others waiting.
        self._renewing.join(max(self._left(), 0.0))
        try:
            self.check()
            self._rewrite(released=True, fence_due=self._record.fence_due or not in_order)
        except LeaseLost as lost:
            self._lost = self._lost or lost
        except TidemarkError as error:
            until = time_text(self._record.expires_at)
            print(f"The lease was not released, and runs until {until}: {error}", file=sys.stderr)

    def raise_if_lost(self) -> None:
        """Raise LeaseLost where it was lost while it was held, once `on_lapse` has returned."""
        with self._losing:
            if self._lost:
                raise self._lost

    def _renew_on(self) -> None:
        pause = self._record.seconds / 3
        while not self._done.wait(pause):
            try:
                self._renew()
            except LeaseLost as lost:
                return self._lose(lost)
            except TidemarkError as error:
                self._trouble = f" The last renewal failed: {error}"
                pause = min(_SECONDS_BETWEEN_TRIES, self._record.seconds / 10)
            else:
                pause = self._record.seconds / 3
        return None

    @commit_point(
        "lease renewed",
        after_a_kill="before and after: a lease whose processes are gone; until when it ran does "
        "not matter",
    )
    def _renew(self) -> None:
        # The new end counts from before the request, however long it takes.
        began, at = time.monotonic(), self._now()
        with self._writing:
            self.check()
            end = at + timedelta(seconds=self._record.seconds)
            self._rewrite(renewed_at=at, expires_at=end)
        self._deadline = began + self._record.seconds

    def _watch(self) -> None:
        while not self._done.wait(min(max(self._left(), 0.0), _SECONDS_BETWEEN_TRIES)):
            if self._left() <= 0:
                return self._lose(self._lapsed())
        return None

    def _rewrite(self, **changes: datetime | bool) -> None:
        """Write the own file with these fields changed; both threads and the owner's do."""
        with self._writing:
            record = self._record.model_copy(update=changes)
            self._files.rewrite(record)
            self._record = record

    def _refuse_other(self) -> None:
        if (highest := self._files.highest()) > self.number:
            raise LeaseLost(f"{self._name()} was taken over: {self._now_of(highest)}.")
        if highest < self.number:
            raise LeaseLost(f"{self._name()} has no file any more.")

    def _now_of(self, number: int) -> str:
        with suppress(TidemarkError):
            return f"number {number} is of {described(self._files.read(number))}"
        return f"there is a number {number}"

    def _lose(self, lost: LeaseLost) -> None:
        with self._losing:
            if self._lost or self._done.is_set():
                return
            self._lost = lost
            self._on_lapse(lost)

    def _left(self) -> float:
        by_wall = (self._record.expires_at - self._now()).total_seconds()
        return min(by_wall, self._deadline - time.monotonic())

    def _lapsed(self) -> LeaseLost:
        at = time_text(self._record.expires_at)
        return LeaseLost(f"{self._name()} ran out at {at} without being renewed.{self._trouble}")

    def _name(self) -> str:
        return (
            f"The run {self._record.run_id} ({self._record.purpose}) may write nothing more: its "
            f"lease {self._files.uri}, number {self.number},"
        )
