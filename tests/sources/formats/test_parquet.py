"""Parquet files as JSON lines: each value as the exact encoder writes it, and verdicts on files."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import SourceChanging
from tidemark.sources.formats.parquet import (
    ParquetSlice,
    _cast,
    _json,
    _texts,
    encoder_of,
    parquet_slice,
    typed_schema,
)
from tidemark.sources.source import DETAIL, REASON, PartUnreadable
from tidemark.storage.files import stat_files

MOST = 1_000_000
TIME = datetime(2026, 7, 1, 10, 0, 0, 123_456, tzinfo=UTC)


def slice_of(path: Path) -> ParquetSlice:
    facts = stat_files([path.as_uri()], {})[path.as_uri()]
    assert facts is not None
    return parquet_slice(path.as_uri(), facts, {})


def lines(path: Path, table: pa.Table, most: int = MOST) -> list[Any]:
    pq.write_table(table, path)
    return lines_in(path, most)


def lines_in(path: Path, most: int = MOST) -> list[Any]:
    return [
        json.loads(line)
        for piece in slice_of(path).lines(most)
        for line in piece["_value"].to_pylist()
    ]


def test_a_row_is_the_object_of_its_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int32()),
            "x": pa.array([5.0, 0.1], pa.float64()),
            "d": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
            "t": pa.array(['a "b" \\', "c\nd"]),
            "b": pa.array([True, None]),
            "at": pa.array([TIME, None], pa.timestamp("us", "UTC")),
            "ns": pa.array([1_751_364_000_123_456_789, 0], pa.timestamp("ns", "UTC")),
            "local": pa.array([TIME.replace(tzinfo=None), None], pa.timestamp("us")),
            "day": pa.array([date(2026, 7, 1), None]),
            "of": pa.array([time(10, 0), None], pa.time64("us")),
            "kind": pa.array(["x", "y"]).dictionary_encode(),
            "list": pa.array([[1, 2], None], pa.list_(pa.int64())),
        }
    )
    first, second = lines(tmp_path / "a.parquet", table)
    assert first == {
        "n": 1, "x": 5.0, "d": 1.1, "t": 'a "b" \\', "b": True,
        "at": "2026-07-01T10:00:00.123456Z", "ns": "2025-07-01T10:00:00.123456Z",
        "local": "2026-07-01T10:00:00.123456", "day": "2026-07-01", "of": "10:00:00",
        "kind": "x", "list": [1, 2],
    }  # fmt: skip
    assert second["t"] == "c\nd"
    assert second["n"] is second["at"] is second["list"] is None


NANOS = pa.timestamp("ns", "UTC")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (NANOS, lambda at: at),
        (pa.struct([("a", NANOS), ("b", pa.int8())]), lambda at: {"a": at, "b": None}),
        (pa.struct([pa.field("a", NANOS, nullable=False)]), lambda at: {"a": at}),
        (pa.list_(pa.field("x", NANOS, nullable=False)), lambda at: [at, at]),
        (pa.list_(NANOS), lambda at: [at, None]),
        (pa.large_list(NANOS), lambda at: [at, None]),
        (pa.list_(NANOS, 2), lambda at: [at, None]),
        (pa.map_(pa.string(), NANOS), lambda at: {"k": at}),
        (pa.list_(pa.struct([("a", pa.list_(NANOS))])), lambda at: [{"a": [at]}, None]),
    ],
    ids=lambda one: str(one) if isinstance(one, pa.DataType) else "",
)
def test_nanoseconds_are_cut_off_before_1970_too(tmp_path: Path, kind: Any, shown: Any) -> None:
    nanos = [-500, -1_000_000_500, -1_000, 1_500, -(2**63)]
    times = [
        "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:58.999999Z",
        "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000001Z",
        "1677-09-21T00:12:43.145224Z",
    ]  # fmt: skip
    column = pa.array([*map(shown, nanos), None], numbers_for(kind)).cast(kind)
    found = lines(tmp_path / "a.parquet", pa.table({"t": column}))
    assert [row["t"] for row in found] == [*map(shown, times), None]
    # Arrow may give a part of a column.
    of_rows = typed_schema(pq.ParquetFile(tmp_path / "a.parquet")).field("t").type
    assert _cast(column[2:5], of_rows).equals(_cast(column, of_rows)[2:5])


def numbers_for(kind: Any) -> Any:
    """The type with int64 for instants."""
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(numbers_for(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, numbers_for(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(numbers_for(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(numbers_for(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(numbers_for(kind.value_type)))
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def test_an_instant_in_int96_is_one_behind_and_within_lists_of_one_size(tmp_path: Path) -> None:
    at = TIME.replace(microsecond=0)
    pairs = pa.list_(pa.struct([("a", pa.int32()), ("at", NANOS)]), 1)
    table = pa.table({"v": pa.array([[{"a": 1, "at": at}]], pairs), "t": pa.array([at], NANOS)})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert lines_in(tmp_path / "a.parquet") == [
        {"v": [{"a": 1, "at": "2026-07-01T10:00:00Z"}], "t": "2026-07-01T10:00:00Z"}
    ]


COLUMNS = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.none() | st.floats()).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.none() | st.booleans()).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))).map(
        lambda v: pa.array(v, pa.string())
    ),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(
        lambda v: pa.array(v, pa.timestamp("us", "UTC"))
    ),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(
        lambda v: pa.array(v, pa.timestamp("us"))
    ),
    st.lists(st.none() | st.integers(-800_000, 4_000_000)).map(lambda v: pa.array(v, pa.date32())),
    st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)).map(
        lambda v: pa.array(v, pa.int32()).view(pa.date32())
    ),
    st.lists(st.none() | st.decimals(-1000, 1000, places=3)).map(
        lambda v: pa.array(v, pa.decimal128(10, 3))
    ),
)


@given(COLUMNS)
def test_a_column_at_once_is_what_its_values_are_one_by_one(column: pa.Array[Any]) -> None:
    found = _json(column).to_pylist()
    each = _texts(pa.chunked_array([column]), encoder_of(column.type))
    for one, exact, value in zip(found, each, column, strict=True):
        assert same(one, exact), (value, one, exact)


def same(one: str, other: str) -> bool:
    """The same JSON, with the same kind of number; or none, both."""
    try:
        read = json.loads(other, parse_constant=broken)
    except ValueError:
        return not is_json(one)
    told = json.loads(one, parse_constant=broken)
    if isinstance(read, str) and read.endswith("Z"):
        return datetime.fromisoformat(told) == datetime.fromisoformat(read)
    if isinstance(read, str) and told != read:
        return datetime.fromisoformat(told) == datetime.fromisoformat(read)
    if isinstance(read, float):
        return type(told) is float and (math.copysign(1, told), told) == (
            math.copysign(1, read),
            read,
        )
    return type(told) is type(read) and told == read


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=broken)
    except ValueError:
        return False
    return True


def broken(constant: str) -> Any:
    raise ValueError(constant)


def test_a_time_of_a_year_that_arrow_takes_for_another_is_no_json() -> None:
    days = pa.array([0, 23_956_986], pa.int32())
    times = pa.array([0, 23_956_986 * 86_400_000_000])
    for column in (days.view(pa.date32()), times.view(pa.timestamp("us"))):
        assert [is_json(one) for one in _json(column).to_pylist()] == [True, False]


def test_a_row_that_is_too_large_is_told_and_the_others_are_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": ["a", "x" * 5_000]}), tmp_path / "a.parquet")
    (piece,) = slice_of(tmp_path / "a.parquet").lines(4_096)
    assert piece[REASON].to_pylist() == [None, "too large"]
    assert piece[DETAIL].to_pylist()[1].startswith("Row 2 has ")


@pytest.mark.parametrize(
    "damage", [b"", b"PAR1", b"no Parquet at all, but a text of some length"], ids=len
)
def test_a_file_that_is_no_parquet_is_unreadable(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(damage)
    with pytest.raises(PartUnreadable) as found:
        list(slice_of(path).lines(MOST))
    assert found.value.cause.startswith("It cannot be read as Parquet")


def test_a_page_that_is_damaged_is_told_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"n": list(range(500)), "t": [f"text {n}" for n in range(500)]})
    pq.write_table(table, path, write_page_checksum=True)
    whole, good = path.read_bytes(), lines_in(path)
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    others = []
    for at in range(4, footer, 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        try:
            others += [at] if lines_in(path) != good else []
        except PartUnreadable:
            continue
    assert others == []


@pytest.mark.parametrize("zone", ["UTC+01:00", "Z", "Europe/Kiew", "nowhere"])
def test_a_zone_that_python_does_not_know_is_an_instant_all_the_same(
    tmp_path: Path, zone: str
) -> None:
    path = tmp_path / "a.parquet"
    column = pa.array([1_782_900_000_000], pa.timestamp("ms", zone))
    pq.write_table(pa.table({"at": column}), path)
    assert lines_in(path) == [{"at": "2026-07-01T10:00:00Z"}]


def test_json_and_uuids_are_texts(tmp_path: Path) -> None:
    path, one = tmp_path / "a.parquet", UUID(int=5)
    columns = {
        "u": pa.array([one.bytes, None], pa.uuid()),
        "j": pa.array(['{"a": 1}', None], pa.json_(pa.string())),
    }
    pq.write_table(pa.table(columns), path)
    assert lines_in(path) == [
        {"u": str(one), "j": '{"a": 1}'}, {"u": None, "j": None},
    ]  # fmt: skip


def test_a_column_whose_name_is_no_utf_8_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"name", b"n\xffme"))
    with pytest.raises(PartUnreadable, match="cannot be read as Parquet"):
        list(slice_of(path).lines(MOST))


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.9])
def test_a_file_that_is_cut_is_unreadable(tmp_path: Path, at: float) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"n": list(range(5_000)), "t": [f"text {n}" for n in range(5_000)]})
    pq.write_table(table, path, write_page_checksum=True)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * at)])
    with pytest.raises(PartUnreadable):
        list(slice_of(path).lines(MOST))


@pytest.mark.parametrize(
    ("table", "cause"),
    [
        (pa.table({"d": pa.array([1], pa.duration("us"))}), "duration[us] has no JSON"),
        (pa.table({"n": [1]}).select([]), "it has no columns"),
    ],
)
def test_columns_that_have_no_json_are_told_before_a_row_is_read(
    tmp_path: Path, table: pa.Table, cause: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    with pytest.raises(PartUnreadable) as found:
        list(slice_of(path).lines(MOST))
    assert cause in found.value.cause


def test_a_file_that_is_another_than_planned_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    planned = slice_of(path)
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    with pytest.raises(SourceChanging):
        list(planned.lines(MOST))


def test_numbers_that_have_no_json_are_told_as_they_are_called() -> None:
    found = _json(pa.array([math.nan, math.inf, -math.inf, 1.5, None]))
    assert found.to_pylist() == ["NaN", "Infinity", "-Infinity", "1.5", "null"]


def test_every_encoder_knows_null() -> None:
    assert encoder_of(pa.int64())(None) == "null"
