"""Values of messages that are flat records of Avro, many at once: column by column, with NumPy.

Taken is what can be nothing else than the record that `values.py` reads by itself, whose line has
these values. Of what is in doubt, and of each record of another schema, the line is judged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.instants import FIRST_MICROS, LAST_MICROS
from tidemark.judge.rules import TIMESTAMP
from tidemark.sources.formats.avro import OWN, parsed_schema
from tidemark.sources.formats.parquet import surely_small
from tidemark.sources.kafka.values import PREFIX, Schemas

# Larger values are left to their lines: Arrow's texts have 2 GiB together at most.
_MOST_BYTES = 64 * 1024
# Behind the last value, so that no byte is asked for that is not there, whatever a cut one says.
_BEHIND = bytes(16)
_DAYS = FIRST_MICROS // 86_400_000_000, LAST_MICROS // 86_400_000_000


class _Records:
    """Records that lie in `data`: where each is read (`at`), in which of them the next value is
    `present`, and which are `sure` to be what was read so far. Nothing behind one's end is read."""

    def __init__(self, data: bytes, at: Any, ends: Any) -> None:
        self.data, self.at, self.ends = data, at, ends
        self.present, self.sure = np.ones((2, len(at)), np.bool_)

    def words(self, kind: str) -> Any:
        """What lies at each one's place as a number of a NumPy type."""
        return np.ndarray(len(self.data) + 1 - len(_BEHIND), kind, self.data, 0, (1,))[self.at]

    def move(self, sizes: Any) -> None:
        at = self.at + sizes * self.present
        self.sure &= (self.at <= at) & (at <= self.ends)
        self.at = np.clip(at, self.at, self.ends)

    def number(self) -> Any:
        """Whole numbers; 0 where none is present."""
        value = np.zeros(len(self.at), np.uint64)
        more, at = self.present, self.at
        # One of 63 bits has no more bytes.
        for place in range(9):
            byte = np.where(more, np.frombuffer(self.data, np.uint8)[at], 0)
            value |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            at = at + more
            if not (more := byte > 0x7F).any():
                break
        self.sure &= ~more
        self.move(at - self.at)
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)

    def column(self, kind: pa.DataType, values: Any, fits: Any) -> Array:
        self.sure &= fits | ~self.present
        return pa.array(values, mask=~(self.present & fits)).cast(kind)

    def maybe(self, read: _Read, place: int) -> Array:
        """Of a union of null and another type, which stands in it at this place."""
        branch = self.words("u1")
        self.sure &= (branch == 0) | (branch == 2)
        self.move(1)
        self.present = branch == 2 * place
        column = read(self)
        self.present = np.ones(len(branch), np.bool_)
        return column

    def whole(self, kind: pa.DataType, least: int, most: int, factor: int = 1) -> Array:
        number = self.number()
        fits = (number >= least) & (number <= most)
        number = np.where(fits, number, 0) * np.int64(factor)
        return self.column(kind, number.astype(f"i{kind.bit_width // 8}"), fits)

    def floating(self, kind: str) -> Array:
        values = self.words(kind)
        self.move(values.itemsize)
        return self.column(pa.from_numpy_dtype(values.dtype), values, np.isfinite(values))

    def boolean(self) -> Array:
        byte = self.words("u1")
        self.move(1)
        return self.column(pa.bool_(), byte == 1, byte < 2)

    def symbol(self, symbols: Array) -> Array:
        place = self.number()
        return symbols.take(self.column(pa.int64(), place, (place >= 0) & (place < len(symbols))))

    def decimal(self, kind: pa.Decimal128Type) -> Array:
        """Of at most eight bytes and 18 digits."""
        size, limit = self.number(), 10 ** min(kind.precision, 18)
        number = self.words(">i8") >> np.clip(64 - 8 * size, 0, 63)
        self.move(size)
        fits = (size >= 1) & (size <= 8) & (number > -limit) & (number < limit)
        whole = self.column(pa.decimal128(19), number, fits)
        return pa.Array.from_buffers(kind, len(whole), whole.buffers())

    def text(self, kind: pa.DataType) -> Array:
        size, begin = self.number(), self.at
        self.move(size)
        # What lies between two of them is one too, and not taken.
        offsets = np.stack([begin, self.at], axis=1).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(self.data)]
        every: Array = pa.Array.from_buffers(pa.binary(), offsets.size - 1, buffers)
        found = every.take(pa.array(2 * np.arange(len(size)), mask=~(self.present & self.sure)))
        try:
            return found.cast(kind)
        except pa.ArrowInvalid:
            self.sure[:] = False
            return pa.array([None] * len(found), kind)


_Read = Callable[[_Records], Array]
_READS: Mapping[tuple[str, str], _Read] = {
    ("string", ""): methodcaller("text", pa.string()),
    ("string", "uuid"): methodcaller("text", pa.string()),
    ("bytes", ""): methodcaller("text", pa.binary()),
    ("int", ""): methodcaller("whole", pa.int32(), -(1 << 31), (1 << 31) - 1),
    ("long", ""): methodcaller("whole", pa.int64(), -(1 << 62), 1 << 62),
    ("int", "date"): methodcaller("whole", pa.date32(), *_DAYS),
    ("long", "timestamp-millis"): methodcaller(
        "whole", TIMESTAMP, FIRST_MICROS // 1_000, LAST_MICROS // 1_000, 1_000
    ),
    ("long", "timestamp-micros"): methodcaller("whole", TIMESTAMP, FIRST_MICROS, LAST_MICROS),
    ("float", ""): methodcaller("floating", "<f4"),
    ("double", ""): methodcaller("floating", "<f8"),
    ("boolean", ""): methodcaller("boolean"),
}


def typed_records(
    values: Sequence[bytes | None], schemas: Schemas, most_bytes: int
) -> tuple[Array, Any]:
    """Structs with the types of the values' schemas, and which of them (NumPy's booleans) say all
    that a line does: none of those that are None, or whose values or lines may be too large."""
    most = min(most_bytes, _MOST_BYTES)
    taken = [b"" if one is None or len(one) > most else one for one in values]
    sizes = np.fromiter(map(len, taken), np.int64, len(taken))
    data, ends = b"".join([*taken, _BEHIND]), np.cumsum(sizes)
    begin = _Records(data, ends - sizes, ends)
    numbers = begin.words(">i8") >> np.int64(24) & np.int64(0xFFFFFFFF)
    numbers = np.where((sizes >= PREFIX) & (begin.words("u1") == 0), numbers, -1)
    found = [(np.flatnonzero(numbers == one), schemas.get(str(one))) for one in np.unique(numbers)]
    rows, where = pa.table({}), np.full(len(taken), -1)
    sure = np.zeros(len(taken), np.bool_)
    for places, text in sorted(found, key=lambda one: len(one[0]), reverse=True):
        if text is None or (fields := record_fields(text)) is None:
            continue
        records = _Records(data, begin.at[places] + PREFIX, ends[places])
        read = pa.table({name: one(records) for name, one in fields.items()})
        try:
            together = pa.concat_tables([rows, read], promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            # A field is of another type than in the schema of more values.
            continue
        where[places] = np.arange(len(rows), len(together))
        sure[places] = records.sure & (records.at == records.ends) & surely_small(read, most_bytes)
        rows = together
    if not np.array_equal(where, np.arange(len(rows))):
        rows = rows.take(pa.array(where, mask=where < 0))
    return rows.to_struct_array().combine_chunks(), sure


@lru_cache(maxsize=256)
def record_fields(text: str) -> Mapping[str, _Read] | None:
    """What reads the fields of a schema (`schema_text`); None where its records take lines."""
    content = json.loads(text)
    try:
        schema = content["kind"] == "AVRO" and parsed_schema(content)
    except Exception:  # noqa: BLE001  whatever is wrong with it, the lines' verdict says it
        return None
    match schema:
        case {"type": "record", "fields": [_, *_] as fields}:
            found = {one["name"]: read for one in fields if (read := _read_of(one["type"]))}
            return found if len(found) == len(fields) else None
    return None


def _read_of(kind: Any) -> _Read | None:
    match {"type": kind} if isinstance(kind, str) else kind:
        case ["null", other] | [other, "null"]:
            read = _read_of(other)
            return read and methodcaller("maybe", read, kind.index(other))
        case {"type": "enum", "symbols": symbols}:
            return methodcaller("symbol", pa.array(symbols, pa.string()))
        case {"type": "bytes", "logicalType": logical, "precision": int(size), "scale": int(scale)}:
            fits = logical == f"{OWN}decimal" and 1 <= size <= 38 and 0 <= scale <= size
            return methodcaller("decimal", pa.decimal128(size, scale)) if fits else None
        case {"type": str(name), **more}:
            return _READS.get((name, str(more.get("logicalType", "")).removeprefix(OWN)))
    return None
