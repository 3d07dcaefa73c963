"""`tidemark state show`, for people and as JSON: stores, their worst partitions, schemas."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tidemark.checkpoint.doctor.findings import shown, spans
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.state_metadata import StateSchema
from tidemark.checkpoint.state.check import PartitionCheck, StateCheck, StateVerdict, StoreCheck
from tidemark.checkpoint.state.stores import StoreInventory
from tidemark.pipeline.model import StateLimits

# Of more stores or partitions the worst ones are shown; `--json` holds all.
_SHOWN = 10
_BAR = 20
_NOTHING = "–"
_STYLES = {
    StateVerdict.DUE: "yellow",
    StateVerdict.OVERDUE: "bold yellow",
    StateVerdict.UNKNOWN: "bold yellow",
    StateVerdict.LOST: "bold red",
}


def print_state(
    console: Console, name: str, check: StateCheck, limits: StateLimits, in_use: bool
) -> None:
    """Print the verdict on a query's state, its stores, and the partitions that are worst."""
    style = _STYLES.get(check.verdict)
    unused = "" if in_use else " (not in use)"
    console.print(f"\n{name}: {check.verdict}{unused}", style=style, soft_wrap=True)
    console.print(check.reason, soft_wrap=True)
    if not check.stores:
        return
    console.print(_stores(check))
    console.print(_partitions(check, limits))
    for line in _schemas(check):
        console.print(line, soft_wrap=True)
    if check.verdict is not StateVerdict.LOST:
        console.print(_sentence(check), soft_wrap=True)


def state_check_json(check: StateCheck) -> dict[str, object]:
    """A check as JSON holds it, with every partition; versions as first and last of each range."""
    return {
        "version": check.version,
        "verdict": str(check.verdict),
        "reason": check.reason,
        "longest": check.longest,
        "held": _section(check.held),
        "snapshots": _section(check.snapshots),
        "replayed": _section(check.replayed),
        "stores": [_store(one) for one in check.stores],
    }


def _store(one: StoreCheck) -> dict[str, object]:
    store = one.store
    schema = store.schema
    return {
        "operator": store.operator,
        "operator_name": store.operator_name,
        "store": store.store,
        "provider": str(store.provider),
        "verdict": str(one.worst.verdict),
        "reason": one.worst.reason,
        "key": list(schema.key) if schema else None,
        "value": list(schema.value) if schema else None,
        "longest": store.longest,
        "held": _section(store.held),
        "snapshots": _section(store.snapshots),
        "replayed": _section(store.replayed),
        "skew": store.skew,
        "all_opened": store.opened,
        "partitions": [_partition(partition) for partition in one.partitions],
    }


def _partition(one: PartitionCheck) -> dict[str, object]:
    partition = one.partition
    snapshot = partition.built.snapshot
    return {
        "partition": partition.id.partition,
        "verdict": str(one.verdict),
        "reason": one.reason,
        "versions": [[found.start, found.stop - 1] for found in partition.versions],
        "snapshot_version": snapshot.version if snapshot else None,
        "held": _section(partition.held),
        "snapshot": _section(partition.snapshot),
        "replayed": _section(partition.replayed),
        "empty": partition.empty,
        "lost": partition.lost,
    }


def _section(one: Section) -> dict[str, int]:
    return {"files": one.files, "bytes": one.size}


def _stores(check: StateCheck) -> Table:
    table = Table(box=SIMPLE, show_edge=False)
    for column in ("operator", "store", "kept by"):
        table.add_column(column, overflow="fold")
    table.add_column("parti-\ntions", justify="right")
    for column in ("files\nheld", "snapshots\nread", "changes\nreplayed"):
        table.add_column(column, justify="right")
        table.add_column("their\nbytes", justify="right")
    table.add_column("skew", justify="right")
    table.add_column("verdict")
    for one in check.stores[:_SHOWN]:
        store, verdict = one.store, one.worst.verdict
        sections = (store.held, store.snapshots, store.replayed)
        table.add_row(
            f"{store.operator} {store.operator_name or ''}".strip(),
            store.store,
            str(store.provider),
            f"{len(store.partitions):,}",
            *(f"{number:,}" for found in sections for number in (found.files, found.size)),
            _NOTHING if store.skew is None else f"{store.skew:.1f}",
            str(verdict),
            style=_STYLES.get(verdict),
        )
    if len(check.stores) > _SHOWN:
        table.add_row("…", f"{len(check.stores) - _SHOWN:,} more")
    return table


def _partitions(check: StateCheck, limits: StateLimits) -> Table:
    every = [one for store in check.stores for one in store.partitions]
    worst = sorted(every, key=lambda one: one.badness, reverse=True)
    table = Table(box=SIMPLE, show_edge=False)
    table.add_column("partition" if len(every) <= _SHOWN else f"worst of {len(every):,}")
    for column in ("versions that build", "snapshot"):
        table.add_column(column)
    table.add_column("replayed", justify="right")
    table.add_column(f"of {limits.max_changes:,}, the limit")
    table.add_column("bytes", justify="right")
    table.add_column("verdict")
    for one in worst[:_SHOWN]:
        partition, snapshot = one.partition, one.partition.built.snapshot
        table.add_row(
            partition.id.folder,
            spans(partition.versions) or _NOTHING,
            str(snapshot.version) if snapshot else _NOTHING,
            f"{partition.replayed.files:,}",
            _bar(partition.replayed.files, limits.max_changes),
            f"{partition.replayed.size:,}",
            one.reason if one.verdict is StateVerdict.LOST else str(one.verdict),
            style=_STYLES.get(one.verdict),
        )
    return table


def _bar(changes: int, limit: int) -> str:
    """Full at the limit; one that is longer ends in an arrow."""
    if changes > limit:
        return "█" * _BAR + "▶"
    return "█" * round(changes * _BAR / limit)


def _schemas(check: StateCheck) -> list[str]:
    stores = [one.store for one in check.stores]
    return [_columns(s, s.schema) for s in stores if s.schema and s.schema.key][:_SHOWN]


def _columns(store: StoreInventory, schema: StateSchema) -> str:
    columns = f"{shown(schema.key)} → {shown(schema.value)}"
    return f"operator {store.operator}, store {store.store}: {columns}"


def _sentence(check: StateCheck) -> str:
    read, replayed = check.snapshots, check.replayed
    most = "" if all(one.store.opened for one in check.stores) else "at most "
    return (
        f"the next start loads version {check.version:,}: it reads {most}{read.files:,} files of "
        f"snapshots ({read.size:,} bytes) and replays {replayed.files:,} deltas or changelogs "
        f"({replayed.size:,} bytes), at most {check.longest:,} in a partition"
    )
