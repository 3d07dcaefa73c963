"""What is in each state store of a query, partition by partition: pure, from what was read.

Version V of a store is what batch V−1 left. The next start loads one version of every store: it
reads the newest snapshot up to that version and replays all deltas or changelogs after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tidemark.checkpoint.doctor.findings import Finding, Kind, Severity
from tidemark.checkpoint.doctor.state import state_findings
from tidemark.checkpoint.reading.facts import CheckpointFacts, Operator
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.log_formats import CommitEntry
from tidemark.checkpoint.reading.missing_stores import missing_stores
from tidemark.checkpoint.reading.rebuild import Rebuild, rebuild_after, versions_that_build
from tidemark.checkpoint.reading.state_files import DEFAULT_STORE, Provider, Store, StoreId
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


def inventory(facts: CheckpointFacts) -> StateInventory:
    """What a checkpoint's state holds; no stores where its class of store is not known here."""
    findings = tuple(state_findings(facts))
    unknown = tuple(one for one in findings if one.severity is Severity.UNKNOWN)
    judged = all(one.kind is not Kind.UNKNOWN_FORMAT for one in unknown)
    return StateInventory(
        facts.uri,
        facts.version_needed,
        tuple(s for o in facts.operators for s in _stores(facts, o)) if judged else (),
        tuple(one for one in findings if one.severity is Severity.DAMAGE),
        unknown,
    )


def total(sections: Iterator[Section]) -> Section:
    """The sum of counts and bytes."""
    found = tuple(sections)
    return Section(sum(one.files for one in found), sum(one.size for one in found))


def _stores(facts: CheckpointFacts, operator: Operator) -> Iterator[StoreInventory]:
    commit = facts.commits.entry(facts.version_needed - 1)
    wrong = frozenset(facts.wrong_checksums)
    gone = [_gone(identity, facts.version_needed) for identity in missing_stores(facts, operator)]
    there = [
        _partition(operator, store, facts.version_needed, commit, wrong)
        for store in operator.stores
    ]
    every = sorted([*there, *gone], key=lambda one: (one.id.store, one.id.partition))
    for name, partitions in groupby(every, key=lambda one: one.id.store):
        yield StoreInventory(
            operator.id,
            operator.metadata.name if operator.metadata else None,
            name,
            _schema(operator, name),
            tuple(partitions),
            operator.opened,
        )


def _partition(
    operator: Operator,
    store: Store,
    version: int,
    commit: CommitEntry | None,
    wrong: frozenset[str],
) -> Partition:
    built = rebuild_after(store, version, commit)
    files = [file for found in store.files.values() for file in found]
    every = Section(len(store.shared), sum(store.shared.values()))
    rocksdb = built.snapshot is not None and built.snapshot.rocksdb
    shared = operator.shared.get(store.id.folder, every) if rocksdb else Section()
    return Partition(
        store.id,
        store.provider,
        versions_that_build(store),
        built,
        Section(len(files) + every.files, sum(file.size for file in files) + every.size),
        tuple(file.name for file in files if file.size == 0),
        shared,
        tuple(_lost(operator, store.id.folder, built, wrong)),
    )


def _gone(identity: StoreId, version: int) -> Partition:
    nothing = Rebuild(version, None, (), (), ())
    lost = (f"{identity.folder} is missing",)
    return Partition(identity, Provider.UNKNOWN, (), nothing, Section(), (), Section(), lost)


def _lost(operator: Operator, folder: str, built: Rebuild, wrong: frozenset[str]) -> Iterator[str]:
    yield from (f"{folder}/{name} is missing" for name in built.missing)
    yield from (f"{folder}/{name} is empty" for name in built.empty)
    for name in operator.missing_shared.get(folder, ()):
        # A snapshot that cannot be read says why itself.
        yield f"{folder}/{name}{'' if ': ' in name else ' is missing, or of another size'}"
    cut = frozenset(operator.cut)
    snapshot = (built.snapshot,) if built.snapshot else ()
    for file in (*snapshot, *built.changes):
        name = f"{folder}/{file.name}"
        if name in cut:
            yield f"{name} is cut off"
        if name in wrong:
            yield f"{name} does not match the checksum beside it"


def _schema(operator: Operator, store: str) -> StateSchema | None:
    """Schemas lie in the first partition's folders; those of arbitrary state beside them."""
    folder = "0" if store == DEFAULT_STORE else f"0/{store}"
    for name, schema in operator.schemas.items():
        if name == f"{folder}/_metadata/schema" or name.startswith(f"_stateSchema/{store}/"):
            return schema
    return None
