"""Avro files as JSON lines: each value, each way to pack a block, and verdicts on files."""

from __future__ import annotations

import gzip
import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.formats import avro_bytes, record
from tidemark.errors import SourceChanging
from tidemark.sources.formats import avro
from tidemark.sources.formats.avro import AvroSlice, avro_slice
from tidemark.sources.source import DETAIL, REASON, PartUnreadable
from tidemark.storage.files import stat_files

MOST = 1_000_000
TIME = datetime(2026, 7, 1, 10, 0, 0, 123_456, tzinfo=UTC)
LOCAL = TIME.replace(tzinfo=None)
SOME = {"name": "some", "type": "record", "fields": [{"name": "t", "type": "string"}]}


def of(kind: Any, **logical: Any) -> dict[str, Any]:
    return {"type": kind, **logical}


def slice_of(path: Path) -> AvroSlice:
    facts = stat_files([path.as_uri()], {})[path.as_uri()]
    assert facts is not None
    return avro_slice(path.as_uri(), facts, {})


def lines_of(path: Path, most: int = MOST) -> list[bytes]:
    return [line for piece in slice_of(path).lines(most) for line in piece["_value"].to_pylist()]


def lines(path: Path, schema: Any, rows: list[Any], **how: Any) -> list[bytes]:
    path.write_bytes(avro_bytes(schema, rows, **how))
    return lines_of(path)


def cause(path: Path) -> str:
    with pytest.raises(PartUnreadable) as found:
        lines_of(path)
    return found.value.cause


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", -5, "-5"),
        ("long", 2**63 - 1, "9223372036854775807"),
        ("double", 5.0, "5.0"),
        ("float", 0.5, "0.5"),
        ("boolean", True, "true"),
        ("null", None, "null"),
        ("string", 'a "b" \\ é\n', '"a \\"b\\" \\\\ é\\n"'),
        ("bytes", b"\x00\xff", '"AP8="'),
        ({"type": "fixed", "name": "f", "size": 2}, b"\x00\xff", '"AP8="'),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", '"B"'),
        ({"type": "array", "items": "int"}, [1, 2], "[1, 2]"),
        ({"type": "map", "values": ["null", "int"]}, {"é": 1, "b": None}, '{"é": 1, "b": null}'),
        (SOME, {"t": "x"}, '{"t": "x"}'),
        (["null", "string"], None, "null"),
        (["null", "long", "string"], "x", '"x"'),
        (of("int", logicalType="date"), date(2026, 7, 1), '"2026-07-01"'),
        (of("int", logicalType="time-millis"), time(10, 0, 0, 5_000), '"10:00:00.005000"'),
        (of("long", logicalType="time-micros"), time(10, 0), '"10:00:00"'),
        (of("long", logicalType="timestamp-millis"), TIME, '"2026-07-01T10:00:00.123000Z"'),
        (of("long", logicalType="timestamp-micros"), TIME, '"2026-07-01T10:00:00.123456Z"'),
        (of("long", logicalType="timestamp-nanos"), 1_751_364_000_123_456_789,
         '"2025-07-01T10:00:00.123456Z"'),
        (of("long", logicalType="local-timestamp-millis"), LOCAL, '"2026-07-01T10:00:00.123000"'),
        (of("long", logicalType="local-timestamp-micros"), LOCAL, '"2026-07-01T10:00:00.123456"'),
        (of("bytes", logicalType="decimal", precision=38, scale=2),
         Decimal("123456789012345678901234567890123456.10"),
         "123456789012345678901234567890123456.10"),
        (of("bytes", logicalType="decimal", precision=9, scale=0), Decimal(-7), "-7"),
        (of("fixed", name="d", size=8, logicalType="decimal", precision=9, scale=3),
         Decimal("-0.001"), "-0.001"),
        (of("string", logicalType="uuid"), UUID(int=7), f'"{UUID(int=7)}"'),
        (of("fixed", name="u", size=16, logicalType="uuid"), UUID(int=7).bytes, f'"{UUID(int=7)}"'),
        (of("string", logicalType="of-ours"), "x", '"x"'),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_is_the_json_of_its_type(
    tmp_path: Path, kind: Any, value: Any, expected: str
) -> None:
    found = lines(tmp_path / "a.avro", record(v=kind, w="int"), [{"v": value, "w": 1}])
    assert found == [f'{{"v": {expected}, "w": 1}}'.encode()]


def test_a_named_type_is_read_in_the_same_way_wherever_it_is_named(tmp_path: Path) -> None:
    event = record("event", at=of("long", logicalType="timestamp-micros"))
    schema = record(first=event, then=["null", "event"], all={"type": "array", "items": "event"})
    row = {"first": {"at": TIME}, "then": {"at": TIME}, "all": [{"at": TIME}]}
    at = '{"at": "2026-07-01T10:00:00.123456Z"}'
    (found,) = lines(tmp_path / "a.avro", schema, [row])
    assert found.decode() == f'{{"first": {at}, "then": {at}, "all": [{at}]}}'


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (of("long", logicalType="timestamp-micros"), 2**62),
        (of("long", logicalType="local-timestamp-millis"), -(2**62)),
        (of("int", logicalType="date"), 2**31 - 1),
        (of("int", logicalType="time-millis"), 86_400_000),
        ("double", math.nan),
        ("float", -math.inf),
    ],
    ids=str,
)
def test_a_value_without_json_spoils_its_row_alone(tmp_path: Path, kind: Any, value: Any) -> None:
    schema = record(n="int", v=kind, t="string")
    good = {"n": 1, "v": 0, "t": "x"}
    found = lines(tmp_path / "a.avro", schema, [good, {**good, "v": value}, good])
    assert found[0] == found[2]
    json.loads(found[0])
    with pytest.raises(ValueError, match=r"Expecting value|constant"):
        json.loads(found[1], parse_constant=lambda name: int(f"constant {name}"))


def test_text_that_is_no_utf_8_comes_through_as_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    whole = avro_bytes(record(t="string"), [{"t": "abc"}, {"t": "x"}])
    path.write_bytes(whole.replace(b"abc", b"a\xffc"))
    assert lines_of(path) == [b'{"t": "a\xffc"}', b'{"t": "x"}']


FLAT = {
    "n": (["null", "long"], st.none() | st.integers(-(2**63), 2**63 - 1)),
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "x": (["double", "null"], st.none() | st.floats(allow_nan=False, allow_infinity=False)),
    "t": ("string", st.text(st.characters(exclude_categories=["Cs"]))),
    "b": (["null", "boolean"], st.none() | st.booleans()),
    "d": (of("int", logicalType="date"), st.dates()),
    "at": (
        of("long", logicalType="timestamp-micros"),
        st.datetimes(timezones=st.just(UTC)),
    ),
}
CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")


@given(
    rows=st.lists(st.fixed_dictionaries({name: values for name, (_, values) in FLAT.items()})),
    codec=st.sampled_from(CODECS),
    block=st.integers(1, 200),
)
def test_rows_are_those_that_were_written_however_they_are_packed(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], codec: str, block: int
) -> None:
    path = tmp_path_factory.mktemp("a") / "a.avro"
    schema = record(**{name: kind for name, (kind, _) in FLAT.items()})
    found = lines(path, schema, rows, codec=codec, sync_interval=block)
    told = [json.loads(line) for line in found]
    days = {"d": lambda text: date.fromisoformat(text), "at": datetime.fromisoformat}
    read = [
        {name: days[name](value) if name in days else value for name, value in row.items()}
        for row in told
    ]
    assert read == rows
    assert all(type(row["x"]) in (float, type(None)) for row in read)


def test_rows_are_those_that_another_reader_finds(tmp_path: Path) -> None:
    rows = [
        {"n": n, "x": n / 7, "t": f"é {n}", "d": date(2026, 1, 1) + timedelta(n), "at": TIME}
        for n in range(5_000)
    ]
    schema = record(n="long", x="double", t="string", d=FLAT["d"][0], at=FLAT["at"][0])
    found = [json.loads(line) for line in lines(tmp_path / "a.avro", schema, rows)]
    other = pl.read_avro(tmp_path / "a.avro").with_columns(
        pl.col("d").cast(pl.String), pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    )
    assert found == other.to_dicts()


def test_rows_come_in_pieces_of_some_rows_and_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(avro_bytes(record(t="string"), [{"t": "x" * 90} for _ in range(25)]))
    monkeypatch.setattr(avro, "_AT_ONCE", 10)
    assert [len(piece) for piece in slice_of(path).lines(MOST)] == [10, 10, 5]
    monkeypatch.setattr(avro, "_BYTES_AT_ONCE", 300)
    assert {len(piece) for piece in slice_of(path).lines(MOST)} == {4, 1}


def test_a_row_that_is_too_large_is_told_and_the_others_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(avro_bytes(record(t="string"), [{"t": "a"}, {"t": "x" * 5_000}]))
    (piece,) = slice_of(path).lines(4_096)
    assert piece[REASON].to_pylist() == [None, "too large"]
    assert piece[DETAIL].to_pylist()[1].startswith("Row 2 has ")


def test_a_file_that_is_packed_as_a_whole_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.avro.gz"
    path.write_bytes(gzip.compress(avro_bytes(record(n="int"), [{"n": 1}])))
    assert lines_of(path) == [b'{"n": 1}']


def test_a_file_without_rows_has_none(tmp_path: Path) -> None:
    assert lines(tmp_path / "a.avro", record(n="int"), []) == []


@pytest.mark.parametrize("damage", [b"", b"Obj\x01", b"no Avro at all, but a text"], ids=len)
def test_a_file_that_is_no_avro_is_unreadable(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(damage)
    assert cause(path).startswith("It cannot be read as Avro")


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_is_cut_is_unreadable_except_between_two_blocks(
    tmp_path: Path, codec: str
) -> None:
    rows = [{"n": n, "t": f"text {n}"} for n in range(60)]
    whole = avro_bytes(record(n="int", t="string"), rows, codec=codec, sync_interval=100)
    blocks = list(fastavro.block_reader(io.BytesIO(whole)))
    assert len(blocks) > 3
    ends = {blocks[0].offset: 0}
    for one in blocks:
        ends[one.offset + one.size] = ends[one.offset] + one.num_records
    path = tmp_path / "a.avro"
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        if cut in ends:
            assert len(lines_of(path)) == ends[cut]
        else:
            assert cause(path).startswith("It cannot be read as Avro")


def test_any_byte_that_is_another_gives_rows_or_a_verdict(tmp_path: Path) -> None:
    told = set()
    rows = [{"n": n, "t": f"text {n}"} for n in range(20)]
    for codec in CODECS:
        whole = avro_bytes(record(n="int", t="string"), rows, codec=codec, sync_interval=100)
        path = tmp_path / "a.avro"
        for place in range(len(whole)):
            other = bytearray(whole)
            other[place] ^= 0x55
            path.write_bytes(other)
            try:
                lines_of(path)
            except PartUnreadable as error:
                told.add(error.cause.partition(" (")[0])
    assert told == {"It cannot be read as Avro"}


def with_count(whole: bytes, count: int) -> bytes:
    """A file of one block with another number of its records."""
    (block,) = fastavro.block_reader(io.BytesIO(whole))
    begin = block.offset
    assert whole[begin] == block.num_records << 1
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", count)
    return whole[:begin] + out.getvalue() + whole[begin + 1 :]


@pytest.mark.parametrize("count", [0, 2, 4, -3, 2**62])
def test_a_block_that_has_another_number_of_records_than_it_says_is_unreadable(
    tmp_path: Path, count: int
) -> None:
    path = tmp_path / "a.avro"
    whole = avro_bytes(record(n="int"), [{"n": n} for n in range(3)])
    path.write_bytes(with_count(whole, 3))
    assert len(lines_of(path)) == 3
    path.write_bytes(with_count(whole, count))
    assert cause(path).startswith("It cannot be read as Avro")


def test_a_block_of_no_bytes_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(with_count(avro_bytes(record(n="null"), [{"n": None}]), 2**62))
    assert "a block of 0 bytes has" in cause(path)


def test_a_wrong_mark_behind_a_block_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    whole = avro_bytes(record(n="int"), [{"n": 1}])
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert cause(path) == "It cannot be read as Avro (expected sync marker not found)"


def test_a_type_that_holds_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    schema = record("node", n="int", next=["null", "node"])
    path.write_bytes(avro_bytes(schema, [{"n": 1, "next": {"n": 2, "next": None}}]))
    assert cause(path).endswith("(its schema is recursive: node holds itself)")


def test_a_record_that_names_a_field_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    schema = record("row", of=["null", record("pair", a="int", b="int")])
    whole = avro_bytes(schema, [{"of": {"a": 1, "b": 2}}])
    path.write_bytes(whole.replace(b'"b"', b'"a"'))
    assert cause(path).endswith("(its record pair has two fields a)")


def test_a_file_that_is_another_than_planned_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(avro_bytes(record(n="int"), [{"n": 1}]))
    planned = slice_of(path)
    path.write_bytes(avro_bytes(record(n="int"), [{"n": 1}, {"n": 2}]))
    with pytest.raises(SourceChanging):
        list(planned.lines(MOST))


def test_a_machine_without_memory_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_record: Any) -> bytes:
        raise MemoryError

    path = tmp_path / "a.avro"
    path.write_bytes(avro_bytes(record(n="int"), [{"n": 1}]))
    monkeypatch.setattr(avro, "record_line", fail)
    with pytest.raises(MemoryError):
        lines_of(path)


def test_what_fastavro_reads_elsewhere_in_the_process_stays_as_it_is() -> None:
    whole = avro_bytes(record(at=FLAT["at"][0]), [{"at": TIME}])
    assert list(fastavro.reader(io.BytesIO(whole))) == [{"at": TIME}]
