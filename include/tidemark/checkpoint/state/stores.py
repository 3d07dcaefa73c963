"""A query's state stores as they were found: frozen facts, partition by partition.

Version V of a store is what batch V−1 left. The next start loads one version of every store: it
reads the newest snapshot up to that version and replays all deltas or changelogs after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.checkpoint.doctor.findings import Finding
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.rebuild import Rebuild
from tidemark.checkpoint.reading.state_files import Provider, StoreId
from tidemark.checkpoint.reading.state_metadata import StateSchema


@dataclass(frozen=True)
class Partition:
    """One partition of a store.

    `versions`: those that can be built, by names and sizes. `built`: how the version is built that
    the next start loads. `held`: all files of state that are there, without checksums; `empty`:
    those of them with 0 bytes. `shared`: what the snapshot that is loaded shares with others.
    `lost`: why the version cannot be loaded, one text a file; empty where it can.
    """

    id: StoreId
    provider: Provider
    versions: tuple[range, ...]
    built: Rebuild
    held: Section
    empty: tuple[str, ...]
    shared: Section
    lost: tuple[str, ...]

    @property
    def snapshot(self) -> Section:
        """What the next start reads before it replays: nothing, or a snapshot and its files."""
        full = self.built.snapshot
        if full is None:
            return Section()
        return Section(1 + self.shared.files, full.size + self.shared.size)

    @property
    def replayed(self) -> Section:
        """The deltas or changelogs that the next start replays."""
        changes = self.built.changes
        return Section(len(changes), sum(file.size for file in changes))


@dataclass(frozen=True)
class StoreInventory:
    """A store of an operator in all of its partitions.

    `operator_name` and `schema` are None where the operator's own files do not tell. `opened`: were
    all files opened that the next start reads? Else of some only names and sizes are known, and
    what RocksDB snapshots share is given as all that there is.
    """

    operator: int
    operator_name: str | None
    store: str
    schema: StateSchema | None
    partitions: tuple[Partition, ...]
    opened: bool

    @property
    def provider(self) -> Provider:
        """What keeps the state; a partition without a file does not tell."""
        known = [p.provider for p in self.partitions if p.provider is not Provider.UNKNOWN]
        # With changelogs, a partition that has a snapshot only looks like one without.
        return max(known, key=list(Provider).index, default=Provider.UNKNOWN)

    @property
    def held(self) -> Section:
        return total(partition.held for partition in self.partitions)

    @property
    def snapshots(self) -> Section:
        return total(partition.snapshot for partition in self.partitions)

    @property
    def replayed(self) -> Section:
        return total(partition.replayed for partition in self.partitions)

    @property
    def longest(self) -> int:
        """The deltas or changelogs to replay, of the partition that has most."""
        return max((p.replayed.files for p in self.partitions), default=0)

    @property
    def skew(self) -> float | None:
        """How many times the average the largest partition's bytes are that the next start reads;
        None where there is nothing to compare."""
        sizes = [p.snapshot.size + p.replayed.size for p in self.partitions]
        if len(sizes) < 2 or not sum(sizes):
            return None
        return max(sizes) * len(sizes) / sum(sizes)


@dataclass(frozen=True)
class StateInventory:
    """All stores of a query. `version`: the one that the next start loads. `damage` and `unknown`:
    the findings of the doctor on the state that tell more than its stores do."""

    uri: str
    version: int
    stores: tuple[StoreInventory, ...]
    damage: tuple[Finding, ...] = ()
    unknown: tuple[Finding, ...] = ()


def total(sections: Iterable[Section]) -> Section:
    """The sum of counts and bytes."""
    found = tuple(sections)
    return Section(sum(one.files for one in found), sum(one.size for one in found))
