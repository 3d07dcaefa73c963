"""`ops/runs`: a row for each run, with what it found, did and cost. Written without a JVM.

The row of a run that is held is of outcome `held`; once it is published, another takes its place. A
run that published and was killed before it could say so gets the outcome `interrupted` by gold's
commits, before anything is published again. A run that is tried again from its start is another
run, of the same name, with a later `started_at`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow.dataset import field

from tidemark.commit_point import commit_point
from tidemark.errors import ClockWrong
from tidemark.gold.pins import TableResult
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import PublishedNote, note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.ops import (
    COUNT,
    NUMBER,
    TEXT,
    TIME,
    WRITTEN_AT,
    ensure_ops_table,
    ops_columns,
    ops_rows,
)
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse
from tidemark.version import WRITTEN_BY, told_version

_LOG = logging.getLogger(__name__)
HELD, SUCCEEDED, FAILED, INTERRUPTED = "held", "succeeded", "failed", "interrupted"
# Of two outcomes of one run, the later one here is so: what was published once is published.
_ORDER = (HELD, FAILED, INTERRUPTED, SUCCEEDED)

_TABLE = pa.struct(
    [
        *ops_columns(TEXT, "table"),
        *ops_columns(COUNT, "generation"),
        *ops_columns(TIME, "watermark_before", "watermark_after"),
        *ops_columns(TIME, "close_before", "close_after", "sealed_to"),
        *ops_columns(COUNT, "windows_changed", "windows_published"),
        *ops_columns(COUNT, "late_rows", "corrected_windows", "changes_version", "gold_version"),
    ]
)
_FIELDS = [
    *ops_columns(TEXT, "pipeline", "run", "trigger", "outcome"),
    *ops_columns(TIME, "scheduled_at", "started_at", "ended_at"),
    *ops_columns(COUNT, "rows_read", "rows_accepted", "rows_rejected"),
    *ops_columns(pa.map_(TEXT, COUNT), "reasons", "counted"),
    *ops_columns(pa.map_(TEXT, TEXT), "restart"),
    *ops_columns(pa.map_(TEXT, COUNT), "batches"),
    *ops_columns(pa.map_(TEXT, NUMBER), "seconds"),
    *ops_columns(pa.map_(TEXT, COUNT), "versions"),
    *ops_columns(pa.list_(_TABLE), "tables"),
    *ops_columns(TEXT, "took_over", "error_class", "error"),
    *ops_columns(TIME, "newest_event"),
    # By table. A column of its own: a table of before takes no other `tables`.
    *ops_columns(pa.map_(TEXT, COUNT), "open_windows"),
    *ops_columns(TEXT, "by", "dag"),
    *ops_columns(TIME, WRITTEN_AT),
    *ops_columns(TEXT, WRITTEN_BY),
    *ops_columns(TEXT, "reason"),
]
SCHEMA = pa.schema(_FIELDS)
_DESCRIPTION = "The runs of the pipeline"


@commit_point(
    "run recorded",
    after_a_kill="before: the next run records what was published as interrupted; after: nothing "
    "is due",
)
def record_run(runs: OpsPlace, result: RunResult) -> None:
    """Write the run's row, in the place of the one that it has, if it has one of an earlier
    outcome, or failed before; else nothing."""
    table, row = _table_of(runs), _row(result)
    there = _there(table, row)
    if there is None or _order(row) > _order(there) or _failed_again(row, there):
        _write(table, row, there)


def try_to_record_run(
    runs: OpsPlace, result: RunResult, say: Callable[[str], object] = _LOG.warning
) -> None:
    """Write the row of a run that is over, where that is possible. It is as good without its
    row, whatever keeps that from being written: the next start says what is missing of a
    published one. One that stopped at this machine's clock has none, for its times are wrong."""
    try:
        if result.error is None or result.error.type != ClockWrong.__name__:
            record_run(runs, result)
    except Exception as error:  # noqa: BLE001  see above
        say(f"the row of {result.run_id} in {runs.uri} is missing: {error}")


@commit_point(
    "interrupted run recorded",
    after_a_kill="before: the next run records it; after: the next run finds it recorded",
)
def record_interrupted_run(pipeline: Pipeline, warehouse: Warehouse) -> None:
    """Write the row of the run that published last, where it was killed before it could: what is
    known of it is what its row of outcome `held` or `failed` tells, if it has one, and what gold
    does."""
    published = _last_publishes(pipeline, warehouse)
    if not published:
        return
    last = max((note for _, note in published.values()), key=lambda note: note.started_at)
    tables = [
        # Of 0 nobody can tell whether the act that committed it counts windows.
        {"table": name, "gold_version": version, "windows_published": note.windows or None}
        for name, (version, note) in published.items()
        if (note.run, note.started_at) == (last.run, last.started_at)
    ]
    row = {
        "pipeline": pipeline.name,
        "run": last.run,
        "trigger": last.trigger,
        "outcome": INTERRUPTED,
        "started_at": last.started_at,
        "tables": tables,
        WRITTEN_AT: datetime.now(UTC),
    }
    table = _table_of(warehouse.runs)
    there = _there(table, row)
    # Only a run of the stream can be published behind its row.
    held = (HELD, FAILED) if last.trigger is None else (HELD,)
    if there is None or (there["outcome"] in held and not _tells(there, tables)):
        _write(table, _interrupted(row, there), there)


def last_published(pipeline: Pipeline, warehouse: Warehouse) -> datetime | None:
    """When the run that published last was started; its row must stay, or it comes back as that
    of an interrupted run. None before the first publish."""
    published = _last_publishes(pipeline, warehouse).values()
    return max((note.started_at for _, note in published), default=None)


def _last_publishes(
    pipeline: Pipeline, warehouse: Warehouse
) -> dict[str, tuple[int, PublishedNote]]:
    """Gold's version by its last publish and the note of that, by table."""
    return {
        name: last
        for name in pipeline.tables
        if (last := _last_publish(warehouse.gold(name))) is not None
    }


def _last_publish(gold: TablePlace) -> tuple[int, PublishedNote] | None:
    table = gold.open()
    if table is None:
        return None
    for commit in newest_first(table):
        note = note_of(commit)
        if isinstance(note, PublishedNote):
            return int(commit["version"]), note
    return None


def one_row_each(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A row of each run, of rows of a table that has several of a run, as the shared one did: those
    of its former outcomes stayed beside the last."""
    found: dict[tuple[str, datetime], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (_order(row), row["ended_at"] or row["started_at"])):
        key = row["run"], row["started_at"]
        is_interrupted = row["outcome"] == INTERRUPTED
        found[key] = _interrupted(row, found.get(key)) if is_interrupted else row
    return list(found.values())


def one_row_of_each(rows: pa.Table) -> pa.Table:
    """`one_row_each` of a table."""
    return pa.Table.from_pylist([dict(row) for row in one_row_each(rows.to_pylist())], rows.schema)


def _interrupted(row: Mapping[str, Any], there: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """An interrupted run's row, with what its held or failed one knew. One that failed while it
    published stays failed, also where gold got its tables."""
    if there is None or there["outcome"] not in (HELD, FAILED):
        return row
    tables = {table["table"]: table for table in there["tables"] or ()}
    for table in row["tables"]:
        tables[table["table"]] = _over(tables.get(table["table"], {}), table)
    merged = _over(there, row) | {"tables": list(tables.values())}
    if there["outcome"] == FAILED and "publish" in dict(there.get("seconds") or ()):
        return merged | {"outcome": FAILED}
    return merged | {"error_class": None, "error": None}


def _tells(row: Mapping[str, Any], published: Iterable[Mapping[str, Any]]) -> bool:
    """Does a run's row say of these tables that they are published?"""
    told = {one["table"] for one in row["tables"] or () if one["gold_version"] is not None}
    return told >= {one["table"] for one in published}


def _over(known: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    return {**known, **{name: value for name, value in newer.items() if value is not None}}


def _order(row: Mapping[str, Any]) -> int:
    return _ORDER.index(row["outcome"]) if row["outcome"] in _ORDER else len(_ORDER)


def _failed_again(row: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Did a run that failed, or was killed while it published, fail once more, later? What is to be
    done is what the last one says."""
    before = there["ended_at"] if there["outcome"] in (FAILED, INTERRUPTED) else row["ended_at"]
    return bool(row["outcome"] == FAILED and (before is None or row["ended_at"] > before))


def _table_of(runs: OpsPlace) -> DeltaTable:
    return ensure_ops_table(runs, SCHEMA, _DESCRIPTION, one_row_of_each)


def _there(table: DeltaTable, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row that a run has; files of other runs are left out by their statistics."""
    escaped = row["run"].replace("'", "''")
    same = (field("run") == row["run"]) & (
        field("started_at") == pa.scalar(row["started_at"], TIME)
    )
    known = dataset_of(table, f"run = '{escaped}'").to_table(filter=same)
    rows: list[dict[str, Any]] = known.to_pylist()
    return rows[0] if rows else None


def _with_earlier(row: Mapping[str, Any], there: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The row of a run that came to an end, with what its earlier tries published, too: each has
    told its own commits alone, or what it was told of them. A table of a run is published once."""
    if there is None or row["outcome"] not in (SUCCEEDED, FAILED):
        return row
    told, before = "windows_published", {one["table"]: one for one in there["tables"] or ()}
    tables = []
    for one in row["tables"]:
        known = before.get(one["table"], {})
        version = (
            one["gold_version"] if one["gold_version"] is not None else known.get("gold_version")
        )
        windows = max(one[told] or 0, known.get(told) or 0) if known.get(told) else one[told]
        tables.append(one | {"gold_version": version, told: windows})
    return {**row, "tables": tables}


def _write(table: DeltaTable, row: Mapping[str, Any], there: Mapping[str, Any] | None) -> None:
    """In one commit. A row that is there stays in no other file than the one that it is in."""
    rows = ops_rows(table, SCHEMA, [_with_earlier(row, there)])
    if there is None:
        write_deltalake(table, rows, mode="append")
        return
    run, began = row["run"].replace("'", "''"), row["started_at"].astimezone(UTC).isoformat()
    write_deltalake(
        table, rows, mode="overwrite", predicate=f"run = '{run}' AND started_at = '{began}'"
    )


def _row(result: RunResult) -> dict[str, Any]:
    failed, held = result.outcome == "failed", result.held
    return {
        "pipeline": result.pipeline,
        "run": result.run_id,
        "trigger": result.trigger,
        "outcome": FAILED if failed else HELD if held else SUCCEEDED,
        "scheduled_at": result.scheduled_at,
        "started_at": result.started_at,
        "ended_at": result.ended_at,
        "rows_read": result.rows.read,
        "rows_accepted": result.rows.accepted,
        "rows_rejected": sum(result.rows.rejected.values()),
        "reasons": result.rows.rejected,
        "counted": result.rows.counted,
        "restart": result.restart,
        "batches": {query: len(numbers) for query, numbers in result.batches.items()},
        "seconds": result.seconds,
        "versions": result.versions,
        "tables": [_table(name, table) for name, table in result.tables.items()],
        "took_over": result.took_over,
        "error_class": result.error.type if result.error else None,
        "error": result.error.message if result.error else None,
        "newest_event": result.newest_event,
        "open_windows": {
            name: table.open_windows
            for name, table in result.tables.items()
            if table.open_windows is not None
        },
        "by": result.by,
        "dag": result.dag,
        "reason": result.reason,
        WRITTEN_AT: result.ended_at,
        WRITTEN_BY: told_version(),
    }


def _table(name: str, table: TableResult) -> dict[str, Any]:
    return {
        "table": name,
        "generation": table.generation,
        "watermark_before": _instant(table.watermark_before_ms),
        "watermark_after": _instant(table.watermark_after_ms),
        "close_before": _instant(table.close_before_ms),
        "close_after": _instant(table.close_after_ms),
        "sealed_to": _instant(table.sealed_to_ms),
        "windows_changed": table.windows_changed,
        "windows_published": table.published_windows,
        "late_rows": table.late.rows + table.late.partly,
        "corrected_windows": table.corrected,
        "changes_version": table.changes,
        "gold_version": table.gold,
    }


def _instant(milliseconds: int) -> datetime | None:
    return instant_of(milliseconds) if milliseconds else None
