"""The file that mends rejects: JSON lines of an `id` and the mended record, as `rejects export`
writes them; what else a line has is passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tidemark.errors import ReplayRefused
from tidemark.judge.json_text import LineReader, NotAnObject, json_text
from tidemark.storage.files import FileMissing, Options, read_chunks

# A file passes through the driver.
MOST_BYTES = 256 * 1024**2
SHOWN_FAULTS = 5
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("_reject_id", pa.string()),
    pa.field("_line", pa.int64()),
    pa.field("_value", pa.binary()),
    pa.field("_is_text", pa.bool_()),
]
SCHEMA = pa.schema(_COLUMNS)


def mended_records(place: str, options: Options) -> pa.Table:
    """The mended records, in SCHEMA. ReplayRefused, with the lines, where some are none."""
    lines = LineReader()
    seen: dict[str, int] = {}
    records: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, line in enumerate(_lines(place, options), start=1):
        if not line.strip():
            continue
        try:
            name, record, is_text = _mended(lines.read(line))
            if (first := seen.setdefault(name, number)) != number:
                raise NotAnObject(f"the id {name} stands in line {first:,} too")
        except NotAnObject as error:
            faults.append(f"line {number:,}: {error}")
        else:
            records.append(dict(zip(SCHEMA.names, (name, number, record, is_text), strict=True)))
    check_mended(place, faults)
    if not records:
        raise ReplayRefused(f"{place} holds no line. Nothing was changed.")
    return pa.Table.from_pylist(records, SCHEMA)


def check_mended(place: str, faults: Iterable[str]) -> None:
    """ReplayRefused where there are faults: the first of them, and what a line has to be."""
    if found := list(faults):
        more = f"; and {len(found) - SHOWN_FAULTS:,} more" if len(found) > SHOWN_FAULTS else ""
        raise ReplayRefused(
            f"{place} mends no rejects as it is: {'; '.join(found[:SHOWN_FAULTS])}{more}. Nothing "
            "was changed. A line is a JSON object with the `id` of a reject and the mended record "
            "in `raw`, as `tidemark rejects export` writes them; `raw` may be the JSON object that "
            "the record is, too. Mend these lines, or leave them out."
        )


def _mended(fields: dict[str, Any]) -> tuple[str, bytes, bool]:
    """The id, the record, and whether it is text as its source has it, and not an object."""
    name, raw = fields.get("id"), fields.get("raw")
    if not isinstance(name, str) or not name:
        raise NotAnObject("it has no `id` that is text")
    if isinstance(raw, str):
        return name, raw.encode(), True
    if isinstance(raw, dict):
        return name, json_text(raw).encode(), False
    raise NotAnObject(f"of the id {name} it has no `raw` that is text or an object")


def _lines(place: str, options: Options) -> Iterator[bytes]:
    left, read = b"", 0
    try:
        for chunk in read_chunks(place, options):
            read += len(chunk)
            if read > MOST_BYTES:
                raise ReplayRefused(
                    f"{place} has more than {MOST_BYTES:,} bytes, which are read at a time. "
                    "Nothing was changed. Split it, and replay the parts one after the other."
                )
            *whole, left = (left + chunk).split(b"\n")
            yield from whole
    except FileMissing as error:
        raise ReplayRefused(f"There is no file {place}. Nothing was changed.") from error
    yield left
