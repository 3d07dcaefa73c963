"""Typed rows as the JSON lines that they would be."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.running import clicks
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.sources.delta.slices import DeltaSlice
from tidemark.sources.formats import parquet
from tidemark.sources.formats.parquet import lines_of
from tidemark.sources.kinds import row_origin
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

EAST = timezone(timedelta(hours=5, minutes=30))


def line(kind: pa.DataType, value: object) -> str:
    (found,) = lines_of(pa.table({"v": pa.array([value], kind)})).to_pylist()
    return found.decode()


def test_each_type_has_its_json() -> None:
    at = datetime(2026, 7, 1, 10, 0, 0, 123456, UTC)
    bare = at.replace(tzinfo=None)
    assert line(pa.timestamp("us", "UTC"), at) == '{"v": "2026-07-01T10:00:00.123456Z"}'
    zoned = pa.timestamp("us", "Asia/Kolkata")
    assert line(zoned, at.astimezone(EAST)) == '{"v": "2026-07-01T10:00:00.123456Z"}'
    assert line(pa.timestamp("us"), bare) == '{"v": "2026-07-01T10:00:00.123456"}'
    assert line(pa.date32(), date(2026, 7, 1)) == '{"v": "2026-07-01"}'
    large = Decimal("12345678901234567890123456.7890123456")
    assert line(pa.decimal128(38, 10), large) == f'{{"v": {large}}}'
    assert line(pa.decimal128(10, 2), Decimal("1.10")) == '{"v": 1.10}'
    assert line(pa.decimal128(20, 0), Decimal(10) ** 19) == f'{{"v": {10**19}}}'
    assert line(pa.int64(), -(2**63)) == f'{{"v": {-(2**63)}}}'
    assert line(pa.bool_(), True) == '{"v": true}'
    assert line(pa.float64(), float("nan")) == '{"v": NaN}'
    assert line(pa.binary(), b"\x00\xff") == '{"v": "AP8="}'
    assert line(pa.string(), 'ü"\n') == '{"v": "ü\\"\\n"}'
    struct = pa.struct([pa.field("a", pa.int32()), pa.field("t", pa.timestamp("us", "UTC"))])
    assert (
        line(struct, {"a": None, "t": at})
        == '{"v": {"a": null, "t": "2026-07-01T10:00:00.123456Z"}}'
    )
    assert line(pa.list_(pa.decimal128(5, 1)), [Decimal("1.5"), None]) == '{"v": [1.5, null]}'
    assert line(pa.map_(pa.string(), pa.int64()), [("k", 1)]) == '{"v": {"k": 1}}'
    for kind in (pa.string(), pa.int64(), struct, pa.timestamp("us", "UTC")):
        assert line(kind, None) == '{"v": null}'


def test_fields_of_the_partition_follow_those_of_the_file() -> None:
    rows = pa.table({"a": [1, 2]})
    assert lines_of(rows, {"day": '"2026-07-01"'}).to_pylist() == [
        b'{"a": 1, "day": "2026-07-01"}',
        b'{"a": 2, "day": "2026-07-01"}',
    ]


values = st.fixed_dictionaries(
    {
        "a": st.text(),
        "b": st.floats(allow_nan=False, allow_infinity=False),
        "c": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


@given(st.lists(values, max_size=5))
def test_json_gives_the_values_back(rows: list[dict[str, object]]) -> None:
    schema = pa.schema({"a": pa.string(), "b": pa.float64(), "c": pa.int64()})
    lines = lines_of(pa.Table.from_pylist(rows, schema)).to_pylist()
    assert [json.loads(one) for one in lines] == rows


def test_an_instant_of_spark_is_the_same_in_any_year_and_a_time_without_zone_stays_one(
    tmp_path: Path,
) -> None:
    """Spark may write INT96, whose nanoseconds fit no 64 bits before 1677 and after 2262."""
    times = [datetime(9999, 12, 31, 23, 59, 59), datetime(1600, 1, 1), datetime(2026, 7, 1, 10)]
    rows = pa.table(
        {"at": pa.array(times, pa.timestamp("us")), "in": [{"at": one} for one in times]}
    )
    file = tmp_path / "file.parquet"

    def read() -> list[str]:
        whole = DeltaSlice("0/file.parquet", 0, "file.parquet", file.as_uri(), 1, {}, {})
        pieces = whole.lines(10**9)
        return [line.decode() for piece in pieces for line in piece["_value"].to_pylist()]

    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    told = ["9999-12-31T23:59:59Z", "1600-01-01T00:00:00Z", "2026-07-01T10:00:00Z"]
    assert read() == [f'{{"at": "{one}", "in": {{"at": "{one}"}}}}' for one in told]
    pq.write_table(rows, file)
    bare = [one.removesuffix("Z") for one in told]
    assert read() == [f'{{"at": "{one}", "in": {{"at": "{one}"}}}}' for one in bare]


@pytest.mark.slow
def test_large_rows_are_read_few_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "file.parquet"
    text = "é" * 1_000_000
    values = [f"{number}{text}" for number in range(100)]
    pq.write_table(pa.table({"v": values}), file, use_dictionary=False, compression="zstd")
    whole = DeltaSlice("0/file.parquet", 0, "file.parquet", file.as_uri(), 1, {}, {})
    pieces = list(whole.lines(10**9))
    assert sum(map(len, pieces)) == 100
    assert max(map(len, pieces)) < 40
    rows = [row for piece in whole.lines(2_000_010) for row in piece.to_pylist()]
    assert [row["_row"] for row in rows if row.get("_reason") == "too large"] == [*range(10, 100)]
    assert rows[99]["_value"] == f'{{"v": "99{text}'.encode()[:4095]


def test_rows_of_a_table_need_no_lines_where_their_types_say_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table without partitions: what these say is JSON."""
    made: list[int] = []
    original = parquet.lines_of

    def counted(rows: pa.Table, *more: Any) -> Any:
        made.append(len(rows))
        return original(rows, *more)

    monkeypatch.setattr(parquet, "lines_of", counted)
    content = {**clicks()["source"], "delta": {"table": "t"}}
    del content["files"]
    pipeline = pipeline_from_mapping("judged", clicks(source=content))
    at = pa.array([0, 1, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"at": at, "key": ["a", "b", "c"], "amount": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "a.parquet")
    pq.write_table(rows.drop_columns("key"), tmp_path / "b.parquet")
    by = BatchRules(
        rules_of(pipeline), row_origin(pipeline), 0, 1, 10**7, keeps_lines=False, by_line=False
    )
    found = []
    for name, partition in (("a", {}), ("b", {"key": '"k"'})):
        uri = (tmp_path / f"{name}.parquet").as_uri()
        one = DeltaSlice(f"1/{name}", 1, name, uri, 100, partition, {})
        judged = judge_slices(by, [one], 10**9)
        assert judged is not None
        (accepted,) = [piece for piece in judged.accepted if len(piece)]
        found.append(accepted.select(["key", "amount", "_file", "_row"]).to_pylist())
        assert judged.by_reason == {"missing field": 1}
    assert found == [
        [{"key": key, "amount": n + 1, "_file": "a", "_row": n} for n, key in enumerate("ab")],
        [{"key": "k", "amount": n + 1, "_file": "b", "_row": n} for n in range(2)],
    ]
    assert made == [1, 3]
