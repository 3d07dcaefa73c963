"""Rejected rows: the newest as examples, and as JSON lines to be mended and landed again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.judge.json_text import NotAnObject, object_decoder, parse_object
from tidemark.pipeline.model import Pipeline
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

MOST_EXAMPLES = 50
# Of a download: rows, and bytes of lines.
MOST_ROWS = 100_000
MOST_BYTES = 256 * 1024**2
_OWN = ("_batch", "_batch_time")
# Lines may be large.
_AT_ONCE = 500
_MOST_FILES = 64
# A line that is longer is not looked into for its keys.
_LONGEST_LINE = 64 * 1024


@dataclass(frozen=True)
class Reject:
    """A record that was rejected. `place` says where in the source it is, by the table's columns
    for that; `raw` is the line, `raw_bytes` its bytes where they are no UTF-8. `id` is the same
    each time that the record is read; None of rows of a version that had none. Times are in UTC."""

    id: str | None
    reason: str
    detail: str | None
    raw: str | None
    raw_bytes: bytes | None
    event_time: datetime | None
    place: Mapping[str, Any]
    read_at: datetime | None

    def facts(self) -> dict[str, Any]:
        """The reject as JSON has it; `raw_base64` are a line's bytes where they are no UTF-8."""
        found = {
            "id": self.id,
            "reason": self.reason,
            "detail": self.detail,
            "event_time": self.event_time,
            "place": self.place,
            "raw": self.raw,
        }
        if self.raw_bytes is not None:
            found["raw_base64"] = base64.b64encode(self.raw_bytes).decode()
        return found

    def line(self) -> str:
        """A JSON object on one line."""
        return json.dumps(self.facts(), ensure_ascii=False, default=_text)


@dataclass(frozen=True)
class ReasonOfRejects:
    """How many rejects have a reason, and when the first and the last of them were read, in UTC."""

    reason: str
    rejects: int
    first_read: datetime
    last_read: datetime


def reasons_of(rejects: DeltaTable) -> tuple[ReasonOfRejects, ...]:
    """The reasons of all rejects, the most frequent first."""
    with duckdb_in_utc() as connection:
        connection.register("rejects", dataset_of(rejects))
        found = connection.execute(
            "SELECT reason, count(*), min(_batch_time), max(_batch_time) FROM rejects "
            "GROUP BY 1 ORDER BY 2 DESC, 1"
        ).fetchall()
    return tuple(ReasonOfRejects(*row) for row in found)


def rejects_of_id(rejects: DeltaTable, reject: str) -> list[Reject]:
    """The reject of this id; several where its record was read in several batches."""
    rows = dataset_of(rejects)
    if "id" not in rows.schema.names:
        return []
    try:
        is_it = ds.field("id") == reject
    except UnicodeEncodeError:
        # Bytes of an argument that are no UTF-8, which no id has.
        return []
    found = rows.to_table(filter=is_it).to_pylist()
    return [_reject(row) for row in sorted(found, key=lambda row: row["_batch"])]


def newest_rejects(rejects: DeltaTable, reason: str | None) -> Iterator[Reject]:
    """Rejected rows, about the newest first: some files at a time, those of the newest batches
    before others. Those of one reason where one is named. They are read as far as somebody asks."""
    files = pa.table(rejects.get_add_actions(flatten=True))
    if not files.num_rows:
        return
    # The last batch of each file, by its statistics. A file is opened with those that end in it.
    ends = sorted({one for one in files["max._batch"].to_pylist() if one is not None}, reverse=True)
    wanted = ds.scalar(True) if reason is None else ds.field("reason") == reason
    first, number = 0, 1
    while first < len(ends):
        last, below = ends[first], next(iter(ends[first + number : first + number + 1]), -1)
        rows = dataset_of(rejects, f"_batch > {below} AND _batch <= {last}")
        asked = wanted & (ds.field("_batch") > below) & (ds.field("_batch") <= last)
        for part in rows.to_batches(filter=asked, batch_size=_AT_ONCE):
            yield from map(_reject, part.to_pylist())
        first, number = first + number, min(2 * number, _MOST_FILES)


def keys_in(raw: str | None, pipeline: Pipeline) -> dict[str, Any]:
    """What a rejected line says of the columns that the pipeline's tables group by, as it stands
    there: nothing is judged. None of it where the line is no object."""
    if raw is None or len(raw) > _LONGEST_LINE:
        return {}
    try:
        _, fields = parse_object(raw.encode(), object_decoder(dict))
    except (NotAnObject, ValueError, RecursionError):
        return {}
    found = {}
    for name in dict.fromkeys(n for table in pipeline.tables.values() for n in table.group_by):
        if column := pipeline.source.columns.get(name):
            value: Any = fields
            for part in column.path(name):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None and not isinstance(value, dict | list):
                found[name] = value.decode() if isinstance(value, bytes) else value
    return found


def reject_lines(rejects: Iterator[Reject]) -> Iterator[str]:
    """These rows as JSON lines, bounded. Where some are left out the last line says so, and has no
    `id`."""
    rows = size = 0
    for one in rejects:
        if rows == MOST_ROWS or size > MOST_BYTES:
            told = f"Older rejects are not in this file, which ends after {rows:,} of them."
            yield json.dumps({"left_out": told}) + "\n"
            return
        line = one.line() + "\n"
        rows, size = rows + 1, size + len(line)
        yield line


def _reject(row: Mapping[str, Any]) -> Reject:
    known = {field: row.get(field) for field in ("id", "detail", "raw", "raw_bytes", "event_time")}
    place = {
        name.removeprefix("_"): value
        for name, value in row.items()
        if name.startswith("_") and name not in _OWN and value is not None
    }
    return Reject(reason=row["reason"], place=place, read_at=row.get("_batch_time"), **known)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
