"""Is the state due for compaction? A verdict for each partition and the whole, with its figure.

What counts is what the next start has to replay. The bytes and files that lie there besides are
housekeeping's matter: a snapshot does not make them fewer, it only lets older ones go later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.state.stores import Partition, StateInventory, StoreInventory, total

# Of a limit: so far, a compaction that was due did not come.
OVERDUE = 2


class ReplayLimits(Protocol):
    """How much a start may have to replay before a compaction is due: deltas or changelogs after
    the newest snapshot and their bytes, in each partition of a store, and files in all."""

    @property
    def max_changes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def max_files(self) -> int: ...


class StateVerdict(StrEnum):
    """How much the next start has to replay, or that it cannot load the state; worst last."""

    HEALTHY = "healthy"
    DUE = "due"
    OVERDUE = "overdue"
    UNKNOWN = "unknown"
    LOST = "cannot be rebuilt"


_ORDER = tuple(StateVerdict)


@dataclass(frozen=True)
class Figure:
    """A number that was compared with its limit; `what` and `bound` name both in a sentence."""

    what: str
    value: int
    limit: int
    bound: str = "limit"

    @property
    def share(self) -> float:
        return self.value / self.limit

    @property
    def verdict(self) -> StateVerdict:
        if self.value <= self.limit:
            return StateVerdict.HEALTHY
        due = self.value <= OVERDUE * self.limit
        return StateVerdict.DUE if due else StateVerdict.OVERDUE

    @property
    def summary(self) -> str:
        return f"{self.value:,} {self.what} to replay, {self.bound} {self.limit:,}"


@dataclass(frozen=True)
class PartitionCheck:
    """A partition's verdict; `figure` is the one that is nearest to its limit, or beyond most."""

    partition: Partition
    verdict: StateVerdict
    figure: Figure
    reason: str

    @property
    def badness(self) -> tuple[int, float]:
        """The larger, the worse."""
        return _ORDER.index(self.verdict), self.figure.share


@dataclass(frozen=True)
class StoreCheck:
    """A store's verdict: that of its worst partition. `partitions` are in their order."""

    store: StoreInventory
    partitions: tuple[PartitionCheck, ...]

    @property
    def worst(self) -> PartitionCheck:
        return max(self.partitions, key=lambda one: one.badness)


@dataclass(frozen=True)
class StateCheck:
    """The verdict on the whole state, and why. `snapshots` and `replayed` are what the next start
    reads, in all partitions together."""

    version: int
    verdict: StateVerdict
    reason: str
    stores: tuple[StoreCheck, ...]
    held: Section
    snapshots: Section
    replayed: Section

    @property
    def longest(self) -> int:
        return max((one.store.longest for one in self.stores), default=0)


def check_state(state: StateInventory, limits: ReplayLimits) -> StateCheck:
    """Compare an inventory with limits. Pure."""
    stores = tuple(
        StoreCheck(store, tuple(_check(partition, limits) for partition in store.partitions))
        for store in state.stores
    )
    replayed = total(store.replayed for store in state.stores)
    files = Figure("files in all", replayed.files, limits.max_files)
    verdict, reason = _whole(state, stores, files)
    held = total(store.held for store in state.stores)
    snapshots = total(store.snapshots for store in state.stores)
    return StateCheck(state.version, verdict, reason, stores, held, snapshots, replayed)


def _check(partition: Partition, limits: ReplayLimits) -> PartitionCheck:
    figures = (
        Figure("deltas or changelogs", partition.replayed.files, limits.max_changes),
        _bytes(partition, limits.max_bytes),
    )
    figure = max(figures, key=lambda one: one.share)
    if partition.lost:
        return PartitionCheck(partition, StateVerdict.LOST, figure, shown(partition.lost))
    return PartitionCheck(partition, figure.verdict, figure, figure.summary)


def _bytes(partition: Partition, limit: int) -> Figure:
    """Where changes take no more than the snapshot that a compaction writes, it spares nothing."""
    replayed, snapshot = partition.replayed.size, partition.snapshot.size
    if snapshot > limit:
        return Figure("bytes", replayed, snapshot, "the snapshot has")
    return Figure("bytes", replayed, limit)


def _whole(
    state: StateInventory, stores: tuple[StoreCheck, ...], files: Figure
) -> tuple[StateVerdict, str]:
    """The worst verdict with its reason; of several, the figure that is beyond its limit most."""
    found = [(StateVerdict.UNKNOWN, 0.0, one.known) for one in state.unknown]
    found += [(w.verdict, w.figure.share, _summary(w)) for w in (one.worst for one in stores)]
    found += [(StateVerdict.LOST, 0.0, one.known) for one in state.damage]
    if stores:
        found.append((files.verdict, files.share, files.summary))
    if not found:
        return StateVerdict.HEALTHY, "the query keeps no state yet"
    verdict, _, reason = max(found, key=lambda one: (_ORDER.index(one[0]), one[1]))
    return verdict, reason


def _summary(worst: PartitionCheck) -> str:
    lost = worst.verdict is StateVerdict.LOST
    return worst.reason if lost else f"{worst.partition.id.folder}: {worst.reason}"
