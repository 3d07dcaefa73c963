"""The state: can the version that the next start loads be built from the files that are there?

Batch N begins with version N of every store (OperatorStateInfo.storeVersion is the
batch's number), and leaves version N+1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.checkpoint.doctor.findings import (
    Finding,
    FindingKind,
    Severity,
    examples,
    numbered,
    shown,
    spans,
)
from tidemark.checkpoint.doctor.watermark import watermark_ms
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.missing import (
    missing_operators,
    missing_stores,
    partition_count,
)
from tidemark.checkpoint.reading.rebuild import Rebuild, rebuild_after
from tidemark.checkpoint.reading.state_files import Store, StoreId

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_KNOWN_PROVIDERS = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")
_RESTORE = (
    "Restore the files from a backup. Without one, the state is lost: start the query in a new "
    "folder and let it read again what the open windows and keys need."
)


def state_findings(facts: CheckpointFacts, keeps_state: bool | None = None) -> Iterator[Finding]:
    """What is wrong with the stores, by operator; a query of which it is known that it keeps no
    state has none to lose."""
    provider = facts.conf.get(_PROVIDER, "")
    if facts.operators and provider and provider.rpartition(".")[2] not in _KNOWN_PROVIDERS:
        yield Finding(
            FindingKind.UNKNOWN_FORMAT,
            Severity.UNKNOWN,
            f"The state is kept by {provider}, whose files are not known here.",
            "It reads them with that class.",
            "None is known.",
            "The state was not judged.",
        )
        return
    version = facts.version_needed
    if keeps_state is not False and not facts.operators and version and watermark_ms(facts):
        yield _no_state(version)
    yield from _missing_operators(facts)
    for operator in facts.operators:
        yield from _lost(facts, operator, version)
        yield from _missing_partitions(facts, operator, version)
        yield from _shared(operator)
        yield from _cut(operator)
        yield from _own_files(operator)


def _no_state(version: int) -> Finding:
    """A watermark is of use to stateful operators only, but a query without them may have one."""
    return Finding(
        FindingKind.STATE,
        Severity.UNKNOWN,
        "The query has a watermark, and there is no folder `state`.",
        "If the query keeps state, it stops: `STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY` "
        f"(Spark 4.2), or version {version} of it cannot be loaded.",
        "If the query keeps state: all of it, sums, windows and keys that are still open.",
        "See whether the query keeps state (an aggregate, a join, a deduplication …). If it does, "
        "restore the folder from a backup.",
        *examples(["state"]),
    )


def _lost(facts: CheckpointFacts, operator: StatefulOperator, version: int) -> Iterator[Finding]:
    commit = facts.commits.entry(version - 1)
    broken = [
        (store, built)
        for store in operator.stores
        if not (built := rebuild_after(store, version, commit)).possible
    ]
    if not broken:
        return
    files = [
        f"{store.id.folder}/{name}"
        for store, built in broken
        for name in (*built.missing, *built.empty)
    ]
    yield Finding(
        FindingKind.STATE,
        Severity.DAMAGE,
        f"Version {version} of {_stores(broken)} cannot be built: {_summary(broken)}.",
        _says(broken),
        "The state of these partitions: sums, windows and keys that are still open.",
        _advice(broken),
        *examples(files),
    )


def _stores(broken: list[tuple[Store, Rebuild]]) -> str:
    named = shown(_name(store.id) for store, _ in broken)
    return f"{len(broken):,} stores ({named})" if len(broken) > 1 else named


def _name(store: StoreId) -> str:
    return f"operator {store.operator}, partition {store.partition}, store {store.store}"


def _summary(broken: list[tuple[Store, Rebuild]]) -> str:
    """The facts of the first store, as an example for the others."""
    store, built = broken[0]
    said = []
    if built.missing:
        said.append(f"{shown(built.missing)} missing")
    if built.empty:
        said.append(f"{shown(built.empty)} empty")
    snapshot = built.snapshot
    start = f"from {snapshot.name}" if snapshot else "from version 1, without a snapshot"
    return f"in {store.id.folder}, {start}, {' and '.join(said)}"


def _says(broken: list[tuple[Store, Rebuild]]) -> str:
    _, built = broken[0]
    if built.detour is not None:
        return (
            "Spark 4.2 takes an older snapshot and the changes after it by itself, unless "
            "`spark.sql.streaming.stateStore.autoSnapshotRepair.enabled` is off; an older version "
            "stops."
        )
    if not built.missing:
        return "It stops with an error of the class `CANNOT_LOAD_STATE_STORE`, `UNCATEGORIZED`."
    if built.missing[0].endswith(".delta"):
        return "It stops with `CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS`."
    return "It stops: a file of RocksDB's state does not exist (`CANNOT_LOAD_STATE_STORE`)."


def _advice(broken: list[tuple[Store, Rebuild]]) -> str:
    detours = [built.detour for _, built in broken if built.detour is not None]
    if len(detours) < len(broken):
        return _RESTORE
    start = detours[0].snapshot.name if detours[0].snapshot else "an empty store"
    return (
        "Move the empty snapshots and their checksum files away: the version can be built without "
        f"them, from {start} and the {len(detours[0].changes)} changes after it."
    )


def _missing_partitions(
    facts: CheckpointFacts, operator: StatefulOperator, version: int
) -> Iterator[Finding]:
    gone = [store.folder for store in missing_stores(facts, operator)]
    if gone:
        known = (
            f"Operator {operator.id} has {partition_count(facts, operator)} partitions, of which "
            f"the state of {len(gone):,} is missing: {shown(gone)}."
        )
        yield Finding(
            FindingKind.STATE,
            Severity.DAMAGE,
            known if operator.stores else f"All state of operator {operator.id} is missing.",
            f"It cannot load version {version} of them, and stops.",
            "The state of these partitions: sums, windows and keys that are still open.",
            _RESTORE,
            *examples(gone),
        )


def _missing_operators(facts: CheckpointFacts) -> Iterator[Finding]:
    if gone := missing_operators(facts):
        yield Finding(
            FindingKind.STATE,
            Severity.DAMAGE,
            f"The state of operators is missing, which are numbered from 0: {spans(gone)}.",
            f"It cannot load version {facts.version_needed} of them, and stops.",
            "The state of these operators: sums, windows and keys that are still open.",
            _RESTORE,
            *numbered("state/{}", gone),
        )


def _shared(operator: StatefulOperator) -> Iterator[Finding]:
    files = [
        f"{folder}/{name}" for folder, names in operator.missing_shared.items() for name in names
    ]
    if files:
        yield Finding(
            FindingKind.STATE,
            Severity.DAMAGE,
            f"Operator {operator.id}: {len(files):,} files that RocksDB snapshots need are "
            f"missing or of another size: {shown(files)}.",
            "It stops when it loads the snapshot: the file does not exist, or has another size "
            "than expected.",
            "The state of these partitions: sums, windows and keys that are still open.",
            _RESTORE,
            *examples(files),
        )


def _cut(operator: StatefulOperator) -> Iterator[Finding]:
    if operator.cut:
        yield Finding(
            FindingKind.STATE,
            Severity.DAMAGE,
            f"Operator {operator.id}: {len(operator.cut):,} files of state do not end as the "
            f"engine ends them, so they were cut: {shown(operator.cut)}.",
            "It stops when it has read as far as the file goes (`CANNOT_LOAD_STATE_STORE`). "
            "Instead of a cut snapshot, Spark 4.2 may take an older one and the changes after it.",
            "The state of these partitions: sums, windows and keys that are still open.",
            _RESTORE,
            *examples(operator.cut),
        )


def _own_files(operator: StatefulOperator) -> Iterator[Finding]:
    for found in operator.unreadable:
        # A start compares the schemas, and does not read the operator's metadata.
        schema = "schema" in found.name.lower()
        needed = Severity.UNKNOWN if found.undecided else Severity.DAMAGE
        yield Finding(
            FindingKind.STATE_METADATA,
            needed if schema else Severity.WARNING,
            f"{found.summary}.",
            "It stops when it compares the schema of the state (`EOFException`)."
            if schema
            else "It goes on; the readers `statestore` and `state-metadata` stop.",
            "None is known: the rows of the state lie in other files.",
            "Restore the file from a backup.",
            *examples([found.name]),
        )
