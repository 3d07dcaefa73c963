"""Read the checkpoints that were asked for, and print what their state holds."""

from __future__ import annotations

from rich.console import Console

from tidemark.checkpoint.doctor.findings import shown, spans
from tidemark.checkpoint.reading.layout import Section
from tidemark.checkpoint.reading.state_metadata import StateSchema
from tidemark.checkpoint.state.check import (
    PartitionCheck,
    StateCheck,
    StateVerdict,
    StoreCheck,
    check_state,
)
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.stores import StoreInventory
from tidemark.cli.checkpoint.show import SHOWN, and_more, head, read_target
from tidemark.cli.checkpoint.targets import CheckpointTarget, CheckpointTargets
from tidemark.cli.console import ReportTable, print_documents, report_console, report_table
from tidemark.errors import SUCCESS
from tidemark.pipeline.model import StateLimits

# Those of the doctor where they mean the same.
VERDICTS = {
    StateVerdict.HEALTHY: SUCCESS,
    StateVerdict.DUE: 10,
    StateVerdict.OVERDUE: 11,
    StateVerdict.UNKNOWN: 13,
    StateVerdict.LOST: 14,
}


def show_states(targets: CheckpointTargets, in_json: bool) -> int:
    """Print each checkpoint's state; the exit code is the largest of those in use."""
    console = report_console()
    documents: list[dict[str, object]] = []
    code = SUCCESS
    for target in targets.checkpoints:
        check = _check(target, targets)
        if target.in_use and check is not None:
            code = max(code, VERDICTS[check.verdict])
        if in_json:
            documents.append(head(target) | ({} if check is None else state_check_json(check)))
        elif check is None:
            console.print(f"\n{target.name}: no query has started yet")
        else:
            print_state(console, target.name, check, target.limits, target.in_use)
    if in_json:
        print_documents(documents)
    return code


def _check(target: CheckpointTarget, targets: CheckpointTargets) -> StateCheck | None:
    facts = read_target(target, targets)
    if facts is None:
        return None
    return check_state(inventory(facts, target.known.keeps_state), target.limits)


_BAR = 20
_NOTHING = "–"
_STYLES = {
    StateVerdict.DUE: "yellow",
    StateVerdict.OVERDUE: "bold yellow",
    StateVerdict.UNKNOWN: "bold yellow",
    StateVerdict.LOST: "bold red",
}


def print_state(
    console: Console, name: str, state: StateCheck, limits: StateLimits, in_use: bool
) -> None:
    """Print the verdict on a query's state, its stores, and the partitions that are worst."""
    style = _STYLES.get(state.verdict)
    unused = "" if in_use else " (not in use)"
    console.print(f"\n{name}: {state.verdict}{unused}", style=style)
    console.print(state.reason)
    if not state.stores:
        return
    console.print(_stores(state))
    console.print(_partitions(state, limits))
    for line in _schemas(state):
        console.print(line)
    if state.verdict is not StateVerdict.LOST:
        console.print(_sentence(state))


def state_check_json(state: StateCheck) -> dict[str, object]:
    """A check as JSON holds it, with every partition; versions as first and last of each range."""
    return {
        "version": state.version,
        "verdict": str(state.verdict),
        "reason": state.reason,
        "longest": state.longest,
        "held": _section(state.held),
        "snapshots": _section(state.snapshots),
        "replayed": _section(state.replayed),
        "stores": [_store(one) for one in state.stores],
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


def _stores(state: StateCheck) -> ReportTable:
    texts = ("operator", "store", "kept by")
    counts = (">files\nheld", ">snapshots\nread", ">changes\nreplayed")
    numbers = (column for count in counts for column in (count, ">their\nbytes"))
    table = report_table(*texts, ">partitions", *numbers, ">skew", "verdict")
    for one in state.stores[:SHOWN]:
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
    and_more(table, len(state.stores))
    return table


def _partitions(state: StateCheck, limits: StateLimits) -> ReportTable:
    every = [one for store in state.stores for one in store.partitions]
    worst = sorted(every, key=lambda one: one.badness, reverse=True)
    first = "partition" if len(every) <= SHOWN else f"worst of {len(every):,}"
    limit = f"of {limits.max_changes:,}, the limit"
    columns = ("versions that build", "snapshot", ">replayed", limit, ">bytes", "~verdict")
    table = report_table(first, *columns)
    for one in worst[:SHOWN]:
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


def _schemas(state: StateCheck) -> list[str]:
    stores = [one.store for one in state.stores]
    return [_columns(s, s.schema) for s in stores if s.schema and s.schema.key][:SHOWN]


def _columns(store: StoreInventory, schema: StateSchema) -> str:
    columns = f"{shown(schema.key)} → {shown(schema.value)}"
    return f"operator {store.operator}, store {store.store}: {columns}"


def _sentence(state: StateCheck) -> str:
    read, replayed = state.snapshots, state.replayed
    most = "" if all(one.store.opened for one in state.stores) else "at most "
    return (
        f"the next start loads version {state.version:,}: it reads {most}{read.files:,} files of "
        f"snapshots ({read.size:,} bytes) and replays {replayed.files:,} deltas or changelogs "
        f"({replayed.size:,} bytes), at most {state.longest:,} in a partition"
    )
