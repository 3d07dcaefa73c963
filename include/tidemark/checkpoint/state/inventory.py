"""What is in each state store of a query: pure, from what was read of its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tidemark.checkpoint.doctor.findings import FindingKind, Severity
from tidemark.checkpoint.doctor.state import state_findings
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.log_formats import CommitEntry
from tidemark.checkpoint.reading.missing import missing_stores
from tidemark.checkpoint.reading.rebuild import Rebuild, rebuild_after, versions_that_build
from tidemark.checkpoint.reading.state_files import DEFAULT_STORE, Provider, Store, StoreId
from tidemark.checkpoint.reading.state_metadata import StateSchema
from tidemark.checkpoint.state.stores import Partition, StateInventory, StoreInventory


def inventory(facts: CheckpointFacts, keeps_state: bool | None = None) -> StateInventory:
    """What a checkpoint's state holds; no stores where its class of store is not known here.
    `keeps_state` is as in `QueryFacts`."""
    findings = tuple(state_findings(facts, keeps_state))
    unknown = tuple(one for one in findings if one.severity is Severity.UNKNOWN)
    judged = all(one.kind is not FindingKind.UNKNOWN_FORMAT for one in unknown)
    return StateInventory(
        facts.uri,
        facts.version_needed,
        tuple(s for o in facts.operators for s in _stores(facts, o)) if judged else (),
        tuple(one for one in findings if one.severity is Severity.DAMAGE),
        unknown,
    )


def _stores(facts: CheckpointFacts, operator: StatefulOperator) -> Iterator[StoreInventory]:
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
    operator: StatefulOperator,
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


def _lost(
    operator: StatefulOperator, folder: str, built: Rebuild, wrong: frozenset[str]
) -> Iterator[str]:
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


def _schema(operator: StatefulOperator, store: str) -> StateSchema | None:
    """Schemas lie in the first partition's folders; those of arbitrary state beside them."""
    folder = "0" if store == DEFAULT_STORE else f"0/{store}"
    for name, schema in operator.schemas.items():
        if name == f"{folder}/_metadata/schema" or name.startswith(f"_stateSchema/{store}/"):
            return schema
    return None
