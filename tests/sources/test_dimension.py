"""What lookups are copied from: values are of their types, or told."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tidemark.errors import LookupBroken, SourceNotFound, SourceUnavailable
from tidemark.pipeline.model import Lookup
from tidemark.sources.dimension import Dimension

KINDS = {
    "id": "long", "name": "string", "price": "decimal(6,2)", "ratio": "double", "is": "boolean",
    "day": "date", "at": "timestamp",
}  # fmt: skip


def dimension(place: Path) -> Dimension:
    kind = "table" if place.is_dir() or not place.suffix else "file"
    said: dict[str, Any] = {kind: "x", "on": "id", "columns": {"name": "string"}}
    if kind == "file":
        said["file"] = f"x{place.suffix}"
    return Dimension("things", Lookup.model_validate(said), str(place), {}, lambda _: None)


def csv(folder: Path, *lines: str) -> Dimension:
    file = folder / "a.csv"
    file.write_text("\n".join(lines))
    return dimension(file)


def test_text_of_csv_is_typed(tmp_path: Path) -> None:
    found = csv(
        tmp_path,
        "more,id,name,price,ratio,is,day,at",
        'x,+7,"a, b",12.5,1e3,TRUE,2026-07-01,2026-07-01T10:00:00.5+02:00',
        'x,-8,"",,,,,',
        "x,9,,1,.5,false,2026-07-02,2026-07-01 10:00Z",
    ).rows(KINDS)
    assert found.to_pylist() == [
        {
            "id": 7, "name": "a, b", "price": Decimal("12.50"), "ratio": 1000.0, "is": True,
            "day": date(2026, 7, 1), "at": datetime(2026, 7, 1, 8, 0, 0, 500_000, UTC),
        },
        {"id": -8, "name": "", **dict.fromkeys(("price", "ratio", "is", "day", "at"))},
        {
            "id": 9, "name": None, "price": Decimal("1.00"), "ratio": 0.5, "is": False,
            "day": date(2026, 7, 2), "at": datetime(2026, 7, 1, 10, tzinfo=UTC),
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "1.5"), ("long", "9223372036854775808"), ("int", "2147483648"), ("long", " 1"),
        ("decimal(4,2)", "1.234"), ("decimal(4,2)", "100.00"), ("double", "1,5"), ("double", "x"),
        ("boolean", "1"), ("date", "2026-02-30"), ("date", "1.7.2026"),
        ("timestamp", "2026-07-01T10:00:00"), ("timestamp", "2026-07-01"), ("double", "1e400"),
        ("double", "-1e400"), ("float", "1e39"), ("timestamp", "2026-07-01T10:00:00+99:99"),
        ("timestamp", "2026-07-01T10:00:00+18:01"), ("timestamp", "2026-07-01T10:00:00-01:60"),
    ],
)  # fmt: skip
def test_text_that_is_no_value_is_told_by_row_and_column(
    tmp_path: Path, kind: str, text: str
) -> None:
    of = csv(tmp_path, "id,v", "1,", f'2,"{text}"', '3,"?"')
    with pytest.raises(LookupBroken) as caught:
        of.rows({"id": "long", "v": kind})
    assert f"`{text}` in row 2, column `v`" in str(caught.value)
    assert "Nothing was written, and gold is as it was." in str(caught.value)


def test_text_is_no_binary(tmp_path: Path) -> None:
    with pytest.raises(LookupBroken, match="the column `v`, and text of CSV is no binary"):
        csv(tmp_path, "id,v", "1,YQ==").rows({"id": "long", "v": "binary"})


def test_columns_whose_names_differ_in_case_are_two(tmp_path: Path) -> None:
    found = csv(tmp_path, "id,ID", "1,a", "2,b").rows({"ID": "string", "id": "long"})
    assert found.to_pylist() == [{"ID": "a", "id": 1}, {"ID": "b", "id": 2}]


def test_columns_that_are_not_there_or_twice_are_told(tmp_path: Path) -> None:
    with pytest.raises(LookupBroken, match="has no column `name`; it has id, Name"):
        csv(tmp_path, "id,Name", "1,a").rows({"id": "long", "name": "string"})
    with pytest.raises(LookupBroken, match="has 2 columns `id`"):
        csv(tmp_path, "id,id", "1,2").rows({"id": "long"})
    with pytest.raises(LookupBroken, match="cannot be read"):
        csv(tmp_path, "id,a", "1,2,3").rows({"id": "long"})


def test_a_header_that_is_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupBroken, match="cannot be read: field larger than field limit"):
        csv(tmp_path, "x" * 140_000, "1").rows({"id": "long"})


@pytest.mark.parametrize(
    ("lines", "begin"),
    [
        (["1,a", '2,"b', "3,c", "4,d"], 3),
        (["1,a", '2,"b"x', "3,c"], 3),
        (['1,"b', "2,c", '3,"d'], 2),
    ],
)
def test_a_quote_that_swallows_rows_is_told(tmp_path: Path, lines: list[str], begin: int) -> None:
    with pytest.raises(LookupBroken, match=f"in the record that begins in line {begin} "):
        csv(tmp_path, "id,name", *lines).rows({"id": "long", "name": "string"})
    with pytest.raises(LookupBroken, match="has a quote that is not closed"):
        csv(tmp_path, 'id,"name', *lines, "x" * 200_000).rows({"id": "long", "name": "string"})


def test_quotes_of_csv_are_what_they_are(tmp_path: Path) -> None:
    long = "x" * 200_000
    file = tmp_path / "a.csv"
    text = f'"id","name","x"\r\n1,"a ""b"", \nc",\n2,d"e,\n\n3,"{long}",\xe9\n'
    # Nobody reads the column that is of another encoding.
    file.write_bytes(b"\xef\xbb\xbf" + text.encode("latin-1"))
    found = dimension(file).rows({"id": "long", "name": "string"})
    assert found.column("name").to_pylist() == ['a "b", \nc', 'd"e', long]


def json_lines(folder: Path, *lines: str) -> Dimension:
    file = folder / "a.jsonl"
    file.write_text("\n".join(lines))
    return dimension(file)


def test_values_of_json_are_typed(tmp_path: Path) -> None:
    found = json_lines(
        tmp_path,
        '{"more": [1, {"id": 3}], "id": 7, "name": "a, \\u00e9\\n", "price": 12.5, "ratio": 1e3, '
        '"is": true, "day": "2026-07-01", "at": "2026-07-01T10:00:00.5+02:00"}',
        '{"id": -9223372036854775808, "name": "", "price": null}',
        ' {"id": 9223372036854775807, "price": 1.50, "ratio": 5, "is": false} \r',
        "",
    ).rows(KINDS)
    assert [found.schema.field(name).type for name in ("id", "price", "at")] == [
        pa.int64(), pa.decimal128(6, 2), pa.timestamp("us", "UTC")
    ]  # fmt: skip
    missing = dict.fromkeys(("day", "at"))
    assert found.to_pylist() == [
        {
            "id": 7, "name": "a, é\n", "price": Decimal("12.50"), "ratio": 1000.0, "is": True,
            "day": date(2026, 7, 1), "at": datetime(2026, 7, 1, 8, 0, 0, 500_000, UTC),
        },
        {"id": -(2**63), "name": "", **dict.fromkeys(("price", "ratio", "is")), **missing},
        {
            "id": 2**63 - 1, "name": None, "price": Decimal("1.50"), "ratio": 5.0, "is": False,
            **missing,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("long", "1.0"), ("long", "1e3"), ("long", "9223372036854775808"), ("long", '"1"'),
        ("int", "2147483648"), ("long", "true"), ("string", "1"), ("string", '["a"]'),
        ("decimal(4,2)", "1.234"), ("decimal(4,2)", "100.00"), ("double", "1e999"),
        ("double", '"1"'), ("boolean", "1"), ("boolean", '"true"'), ("date", '"2026-02-30"'),
        ("timestamp", '"2026-07-01T10:00:00"'), ("timestamp", "1782900000"),
        ("timestamp", '"2026-07-01T10:00:00.0000001Z"'), ("string", '{"a":1}'),
    ],
)  # fmt: skip
def test_json_that_is_no_value_is_told_by_row_and_column(
    tmp_path: Path, kind: str, text: str
) -> None:
    of = json_lines(tmp_path, '{"id": 1}', f'{{"id": 2, "v": {text}}}', '{"id": 3, "v": []}')
    with pytest.raises(LookupBroken) as caught:
        of.rows({"id": "long", "v": kind})
    assert f"`{text}` in row 2, column `v`" in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['[{"id": 1}]'], "no object in row 1: not exactly one JSON object"),
        (["{", '"id": 1', "}"], "no object in row 1: not exactly one JSON object"),
        (['{"id": 1}', "", '{"id": 2}'], "no object in row 2: blank line"),
        (['{"id": 1} {"id": 2}'], "no object in row 1"),
        (['{"id": 1, "id": 1}'], "a field stands twice"),
        (['{"id": NaN}'], "no object in row 1"),
        (['{"id": 1, "name": "\\ud800"}'], "half of a surrogate pair"),
        (['\ufeff{"id": 1}'], "byte order mark"),
        (['{"Id": 1}', '{"ID": 1}'], "has no field `id` in any row"),
    ],
)
def test_a_file_that_is_not_one_object_a_line_is_told(
    tmp_path: Path, lines: list[str], told: str
) -> None:
    with pytest.raises(LookupBroken) as caught:
        json_lines(tmp_path, *lines).rows({"id": "long"})
    assert told in str(caught.value)
    assert "Nothing was written, and gold is as it was." in str(caught.value)


def test_a_file_of_json_without_lines_has_no_rows(tmp_path: Path) -> None:
    for text in ("", "\n"):
        (tmp_path / "a.json").write_text(text)
        if not text:
            assert dimension(tmp_path / "a.json").rows({"id": "long"}).num_rows == 0
    with pytest.raises(LookupBroken, match="blank line"):
        dimension(tmp_path / "a.json").rows({"id": "long"})


TYPED = pa.table(
    {
        "id": pa.array([1, 2], pa.int32()),
        "name": pa.array(["a", None]).dictionary_encode(),
        "at": pa.array([datetime(2026, 7, 1, tzinfo=UTC)] * 2, pa.timestamp("ms", "UTC")),
        "price": pa.array([Decimal("1.5"), None], pa.decimal128(4, 1)),
    }
)
OF_TYPED = {"id": "long", "name": "string", "at": "timestamp", "price": "decimal(6,2)"}


def test_typed_values_are_had_without_a_loss(tmp_path: Path) -> None:
    pq.write_table(TYPED, tmp_path / "a.parquet")
    write_deltalake(str(tmp_path / "table"), TYPED)
    for place in (tmp_path / "a.parquet", tmp_path / "table"):
        found = dimension(place).rows(OF_TYPED)
        assert found.schema.field("id").type == pa.int64()
        assert found.to_pylist() == [
            {
                "id": 1,
                "name": "a",
                "at": datetime(2026, 7, 1, tzinfo=UTC),
                "price": Decimal("1.50"),
            },
            {"id": 2, "name": None, "at": datetime(2026, 7, 1, tzinfo=UTC), "price": None},
        ]


@pytest.mark.parametrize("found", [pa.int8(), pa.int32(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("kind", ["decimal(3,0)", "decimal(10,0)", "decimal(6,2)"])
def test_whole_numbers_are_decimals_where_they_fit(
    tmp_path: Path, found: pa.DataType, kind: str
) -> None:
    pq.write_table(pa.table({"v": pa.array([5, None, 100], found)}), tmp_path / "a.parquet")
    values = dimension(tmp_path / "a.parquet").rows({"v": kind}).column("v").to_pylist()
    assert values == [Decimal(5), None, Decimal(100)]
    with pytest.raises(LookupBroken, match="column `v`"):
        dimension(tmp_path / "a.parquet").rows({"v": "decimal(2,0)"})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1.0]), "long"), (pa.array([300]), "byte"), (pa.array([1]), "string"),
        (pa.array(["1"]), "long"), (pa.array([1], pa.timestamp("us")), "timestamp"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "timestamp"), (pa.array([0.1]), "float"),
        (pa.array([Decimal("1.25")], pa.decimal128(4, 2)), "decimal(4,1)"),
    ],
)  # fmt: skip
def test_typed_values_that_would_become_others_are_told(
    tmp_path: Path, values: Any, kind: str
) -> None:
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    with pytest.raises(LookupBroken, match="column `v`"):
        dimension(tmp_path / "a.parquet").rows({"v": kind})


@pytest.mark.parametrize("where", ["a.parquet", "table"])
def test_text_that_is_no_utf_8_is_told(tmp_path: Path, where: str) -> None:
    file = tmp_path / "a.parquet"
    if where == "table":
        write_deltalake(str(tmp_path / "table"), pa.table({"name": ["a", "b"]}))
        (file,) = (tmp_path / "table").glob("*.parquet")
    _, ends, data = pa.array([b"a", b"M\xfcller"]).buffers()
    pq.write_table(pa.table({"name": pa.StringArray.from_buffers(2, ends, data)}), file)
    with pytest.raises(LookupBroken, match="a value in column `name` that is no string"):
        dimension(tmp_path / where).rows({"name": "string"})


@pytest.mark.parametrize("where", ["a.parquet", "table"])
def test_times_of_spark_are_instants_of_any_year(tmp_path: Path, where: str) -> None:
    file = tmp_path / "a.parquet"
    times = [datetime(9999, 12, 31, tzinfo=UTC), datetime(1500, 1, 1, tzinfo=UTC), None]
    rows = pa.table({"id": [1, 2, 3], "at": pa.array(times, pa.timestamp("us", "UTC"))})
    if where == "table":
        write_deltalake(str(tmp_path / "table"), rows)
        (file,) = (tmp_path / "table").glob("*.parquet")
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)
    found = dimension(tmp_path / where).rows({"at": "timestamp", "id": "long"})
    assert found.to_pylist() == rows.select(["at", "id"]).to_pylist()


@pytest.mark.parametrize("physical", [None, "col-1", "name"])
def test_a_table_whose_columns_have_other_names_in_its_files_is_refused(
    tmp_path: Path, physical: str | None
) -> None:
    """Where the mapping was set later, they have their own."""
    write_deltalake(str(tmp_path / "table"), TYPED)
    log = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (metadata,) = (line["metaData"] for line in lines if "metaData" in line)
    metadata["configuration"]["delta.columnMapping.mode"] = "name"
    schema = json.loads(metadata["schemaString"])
    for one in schema["fields"]:
        inside = physical if one["name"] == "name" else one["name"]
        one["metadata"] = {"delta.columnMapping.physicalName": inside} if inside else {}
    metadata["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, lines)))
    asked = dimension(tmp_path / "table")
    if physical == "name":
        assert asked.version
        found = asked.rows({"id": "long", "name": "string"}).to_pylist()
        assert found == TYPED.select(["id", "name"]).to_pylist()
        return
    with pytest.raises(LookupBroken, match="its column `name` mapped by name, which is not read"):
        _ = asked.version


def test_a_table_whose_times_are_partitions_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "table"), TYPED, partition_by=["at"])
    # Of a column that nobody reads it does not matter.
    rows = dimension(tmp_path / "table").rows({"id": "long", "name": "string"})
    assert rows.num_rows == 2
    said = {"table": "x", "on": "id", "columns": {"at": "timestamp"}}
    read = replace(dimension(tmp_path / "table"), lookup=Lookup.model_validate(said))
    with pytest.raises(LookupBroken, match="is partitioned by `at`, a timestamp"):
        _ = read.version


@pytest.mark.parametrize("where", ["a.parquet", "table"])
def test_a_page_that_is_not_what_its_checksum_says_is_told(tmp_path: Path, where: str) -> None:
    file = tmp_path / "a.parquet"
    rows = pa.table({"id": range(1000)})
    if where == "table":
        write_deltalake(str(tmp_path / "table"), rows)
        (file,) = (tmp_path / "table").glob("*.parquet")
    pq.write_table(rows, file, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(file.read_bytes())
    data[data.find((500).to_bytes(8, "little"))] ^= 0x40
    file.write_bytes(data)
    # No other try would find other bytes.
    with pytest.raises(LookupBroken, match="CRC checksum verification failed"):
        dimension(tmp_path / where).rows({"id": "long"})


def test_a_table_whose_file_is_gone_may_come_back(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "table"), TYPED)
    for file in (tmp_path / "table").glob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceUnavailable, match="Try again"):
        dimension(tmp_path / "table").rows(OF_TYPED)


def test_a_version_is_that_of_the_content(tmp_path: Path) -> None:
    first = csv(tmp_path, "id", "1").version
    assert csv(tmp_path, "id", "1").version == first
    assert csv(tmp_path, "id", "2").version != first
    write_deltalake(str(tmp_path / "table"), TYPED)
    one = dimension(tmp_path / "table").version
    write_deltalake(str(tmp_path / "table"), TYPED, mode="overwrite")
    assert dimension(tmp_path / "table").version != one
    for gone in ("b.csv", "b"):
        with pytest.raises(SourceNotFound, match="which the lookup things is read from"):
            _ = dimension(tmp_path / gone).version
