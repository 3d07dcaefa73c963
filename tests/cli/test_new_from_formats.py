"""`tidemark new` and `tidemark try` take files of each format for what they are."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.cli.test_new import ROWS, land, new, project, text_of, types, written
from tests.kit.formats import avro_bytes, record
from tidemark.pipeline.model import CsvFormatOptions, FilesSource
from tidemark.sources.files.first_lines import copy_first_lines
from tidemark.sources.files.lines import first_lines

__all__ = ["project"]

MOST_BYTES = 10_000


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=";")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, bool) else v for k, v in row.items()})
    return out.getvalue().encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    table = pa.Table.from_pylist(rows)
    nullable = [one.with_nullable(table[one.name].null_count > 0) for one in table.schema]
    return parquet_bytes(table.cast(pa.schema(nullable)))


def parquet_bytes(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue())


def as_avro(rows: list[dict[str, Any]]) -> bytes:
    kinds = ["null", "boolean", "long", "double", "string"]
    return avro_bytes(record(**dict.fromkeys(rows[0], kinds)), rows)


WRITTEN = {
    "array.json": lambda rows: json.dumps(rows).encode(),
    "pretty.json": lambda rows: json.dumps(rows, indent=2).encode(),
    "array_by_lines.json": lambda rows: (
        b"[\n" + b",\n".join(json.dumps(row).encode() for row in rows) + b"\n]\n"
    ),
    "objects.json": lambda rows: "\n".join(json.dumps(row, indent=1) for row in rows).encode(),
    "rows.csv": as_csv,
    "rows.parquet": as_parquet,
    "rows.avro": as_avro,
}


def landed(project: Path, name: str) -> Path:
    file = land(project, [], f"landing/{name.replace('.', '_')}/{name}")
    file.write_bytes(WRITTEN[name]([dict(row) for row in ROWS]))
    return file


@pytest.mark.parametrize("name", WRITTEN)
def test_the_same_rows_in_another_format_are_the_same_pipeline(project: Path, name: str) -> None:
    assert new(land(project, ROWS), name="lines").exit_code == 0
    ended = new(landed(project, name), name="other")
    assert ended.exit_code == 0, ended.stderr
    assert "A run accepts all of them." in ended.output
    lines, other = written(project, "lines"), written(project, "other")
    assert isinstance(other.source, FilesSource)
    assert types(other) == types(lines)
    assert other.tables == lines.tables
    if name.endswith(".json"):
        assert other.source.format == "json_document"
    elif name.endswith(".csv"):
        assert isinstance(other.source.format, CsvFormatOptions)
        assert other.source.format.csv.delimiter == ";"
    else:
        assert other.source.format is None


@pytest.mark.parametrize("said", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_the_first_records_are_copied_as_a_run_reads_them(
    project: Path, name: str, said: bool
) -> None:
    file = landed(project, name)
    assert new(file, name="other").exit_code == 0
    source = written(project, "other").source
    assert isinstance(source, FilesSource)
    if said and source.format is None:
        source = source.model_copy(update={"format": name.rpartition(".")[2]})

    def records(of: FilesSource, place: str, most: int) -> list[str]:
        return [
            line.decode()
            for piece in first_lines(of, place, {}, most, MOST_BYTES)
            for line in piece["_value"].to_pylist()
        ]

    place = file.as_uri()
    taken = copy_first_lines(source, [place], {}, 3, MOST_BYTES, project / "copies")
    assert (taken.rows, taken.notes) == (3, ())
    (copy,) = (path for path in (project / "copies").rglob("*") if path.is_file())
    entries = yaml.safe_load((project / "include/pipelines/other.yaml").read_text())["source"]
    tried = FilesSource.model_validate({**entries, **taken.source})
    assert records(tried, copy.as_uri(), 9) == records(source, place, 3)


def told(source: FilesSource, file: Path) -> list[Any]:
    """What reading a file says of its records."""
    return [
        (row["_value"], row.get("_reason"), row.get("_detail"))
        for piece in first_lines(source, file.as_uri(), {}, 99, MOST_BYTES)
        for row in piece.to_pylist()
    ]


@pytest.mark.parametrize("end", [b"", b",", b"]", b"],", b",\n]", b'] {"n": '])
def test_a_try_judges_a_broken_document_as_a_run_does(project: Path, end: bytes) -> None:
    file = land(project, [], "landing/broken.json")
    file.write_bytes(b"[" + b",".join(b'{"n": %d}' % n for n in range(5)) + end)
    source = FilesSource.model_construct(format="json_document", columns={})
    copied = copy_first_lines(source, [file.as_uri()], {}, 99, MOST_BYTES, project / "copies")
    (copy,) = (path for path in (project / "copies").rglob("*") if path.is_file())

    assert told(source, copy) == told(source, file)
    assert copied.rows == len(told(source, file))


@pytest.mark.parametrize("form", ["csv", "json_lines"])
def test_a_try_judges_records_that_end_in_a_carriage_return_as_a_run_does(
    project: Path, form: str
) -> None:
    file = land(project, [], "landing/ends.csv")
    file.write_bytes(b'at,v\n1,2\r\r\n3,4\r\n"5",6\n7,8\r')
    columns = {"at": "timestamp", "v": "string"}
    said = {"files": "landing/*", "format": form, "columns": columns}
    source = FilesSource.model_validate({**said, "event_time": {"column": "at"}})
    copy_first_lines(source, [file.as_uri()], {}, 99, MOST_BYTES, project / "copies")
    (copy,) = (path for path in (project / "copies").rglob("*") if path.is_file())
    assert told(source, copy) == told(source, file)


def test_an_array_that_is_cut_gives_its_whole_elements(project: Path) -> None:
    file = landed(project, "pretty.json")
    file.write_bytes(file.read_bytes()[:-10])
    ended = new(file, name="other")
    assert ended.exit_code == 0, ended.stderr
    assert "A run accepts 3 of them and rejects 1 (1 malformed)." in ended.output


AT = datetime(2026, 7, 1, 10, tzinfo=UTC)
US = pa.timestamp("us")
# By column: its type in the file, its largest value, and the column's type in a pipeline.
IN_PARQUET: dict[str, tuple[Any, Any, str | None]] = {
    "happened": (pa.timestamp("ns", "UTC"), AT, "timestamp not null"),
    "local": (US, datetime(2026, 7, 1), "string"),
    "at_noon": (pa.time64("us"), time(12), "string"),
    "day": (pa.date32(), date(2026, 7, 1), "date"),
    "price": (pa.decimal128(12, 2), Decimal("9999999999.99"), "decimal(12,2)"),
    "wide": (pa.decimal256(50, 2), Decimal("0.01"), None),
    "b": (pa.int8(), 127, "byte"),
    "s": (pa.int16(), 32767, "short"),
    "i": (pa.int32(), 2**31 - 1, "int"),
    "l": (pa.int64(), 2**63 - 1, "long"),
    "ub": (pa.uint8(), 255, "short"),
    "us": (pa.uint16(), 2**16 - 1, "int"),
    "ui": (pa.uint32(), 2**32 - 1, "long"),
    "ul": (pa.uint64(), 2**64 - 1, "decimal(20,0)"),
    "f": (pa.float32(), 0.1, "float"),
    "d": (pa.float64(), 5.0, "double"),
    "ok": (pa.bool_(), True, "boolean"),
    "bytes": (pa.binary(), b"\0\xff", "binary"),
    "uuid": (pa.binary(4), b"\0\xff\0\0", "binary"),
    "id4": (pa.uuid(), UUID(int=7).bytes, "string"),
    "kind": (pa.dictionary(pa.int8(), pa.string()), "x", "string"),
    "code": (pa.string(), "12.5", "string"),
    "nothing": (pa.null(), None, None),
    "place": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.decimal128(4, 1)))]),
        {"a": 1, "b": [Decimal("1.5")]},
        "struct<a:int,b:array<decimal(4,1)>>",
    ),
    "tags": (pa.map_(pa.string(), pa.float32()), [("k", 0.5)], "map<string,float>"),
    "odd": (pa.struct([("a b", pa.int32())]), {"a b": 1}, None),
    "locals": (pa.list_(US), [datetime(2026, 7, 1)], None),
}


def test_columns_have_the_types_of_a_parquet_file_s_schema(project: Path) -> None:
    columns = {
        name: pa.array([value, value, value if name == "happened" else None], kind)
        for name, (kind, value, _) in IN_PARQUET.items()
    }
    file = land(project, [], "landing/rows/1.parquet")
    file.write_bytes(parquet_bytes(pa.table(columns)))
    ended = new(file)
    assert "A run accepts all of them." in ended.stdout, ended.output
    assert types(written(project)) == {n: kind for n, (*_, kind) in IN_PARQUET.items() if kind}
    text = text_of(project)
    assert '#   "wide": a decimal has 1 to 38 digits' in text
    assert '#   "nothing": null in each row' in text
    assert '#   "odd": has a field inside that cannot be named here' in text
    assert '#   "locals": has timestamps without a zone inside' in text
    measures = written(project).tables["per_hour"].measures.values()
    assert {"sum(b)", "avg(price)"} <= set(measures)


def test_columns_have_the_types_of_an_avro_file_s_schema(project: Path) -> None:
    def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    price = logical("bytes", "decimal", precision=12, scale=2)
    point = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "float"}]}
    # By column: its type in the file, a value, and the column's type in a pipeline.
    points = {"type": "array", "items": "Point"}
    tags = {"type": "map", "values": ["null", "int"]}
    local = logical("long", "local-timestamp-millis")
    fields: dict[str, tuple[Any, Any, str | None]] = {
        "happened": (logical("long", "timestamp-micros"), AT, "timestamp not null"),
        "local": (local, datetime(2026, 7, 1), "string not null"),
        "noon": (logical("int", "time-millis"), time(12), "string not null"),
        "day": (["null", logical("int", "date")], None, "date"),
        "d": (["null", "double"], None, "double"),
        "i": ("int", 2**31 - 1, "int not null"),
        "l": (["long", "null"], 2**63 - 1, "long"),
        "f": ("float", 0.1, "float not null"),
        "ok": ("boolean", True, "boolean not null"),
        "bytes": ("bytes", b"\0\xff", "binary not null"),
        "price": (["null", price], Decimal("1.50"), "decimal(12,2)"),
        "uuid": (logical("string", "uuid"), UUID(int=7), "string not null"),
        "odd": (logical("string", "unheard-of"), "x", "string not null"),
        "kind": ({"type": "enum", "name": "Kind", "symbols": ["A"]}, "A", "string not null"),
        "point": (point, {"x": 0.5}, "struct<x:float> not null"),
        "points": (points, [{"x": 1.5}], "array<struct<x:float>> not null"),
        "tags": (tags, {"a": None}, "map<string,int> not null"),
        "either": (["null", "string", "long"], "x", "string not null"),
        "nothing": ("null", None, None),
    }  # fmt: skip
    schema = record(**{name: kind for name, (kind, *_) in fields.items()})
    row = {name: value for name, (_, value, _) in fields.items()}
    file = land(project, [], "landing/rows/1.avro")
    file.write_bytes(avro_bytes(schema, [row, row]))
    ended = new(file)
    assert "A run accepts all of them." in ended.stdout, ended.output
    assert types(written(project)) == {n: kind for n, (*_, kind) in fields.items() if kind}
    assert "    either: string not null   # by its values: the schemas have" in text_of(project)


def test_of_several_files_the_wider_type_is_taken_else_what_the_values_say(project: Path) -> None:
    at = pa.array([AT], pa.timestamp("us", "UTC"))
    price, days = pa.array([Decimal("1.5")], pa.decimal128(9, 1)), pa.array([date(2026, 7, 1)])
    one = {"n": pa.array([1], pa.int32()), "price": price, "only": at, "mixed": days,
           "e": pa.nulls(1), "many": pa.array([1.5])}  # fmt: skip
    other = {"n": pa.array([2**40]), "price": pa.array([7], pa.int8()), "mixed": at,
             "e": pa.array([1.5], pa.float32()), "many": pa.array(["x"])}  # fmt: skip
    for number, columns in enumerate((one, other)):
        rows = pa.table({"at": at, **columns})
        schema = pa.schema([field.with_nullable(field.name == "price") for field in rows.schema])
        file = land(project, [], f"landing/rows/{number}.parquet")
        file.write_bytes(parquet_bytes(rows.cast(schema) if number else rows))
    ended = new("warehouse/landing/rows/*.parquet")
    assert "A run accepts all of them." in ended.stdout, ended.output
    assert types(written(project)) == {
        "at": "timestamp not null", "n": "long", "price": "decimal(9,1)", "only": "timestamp",
        "mixed": "string not null", "e": "float",
    }  # fmt: skip
    assert '#   "many": of several types (number in 1, text in 1)' in text_of(project)


def csv_of(project: Path, text: str | bytes, name: str = "rows.csv") -> FilesSource:
    """The source that is proposed of such a file."""
    file = land(project, [], f"landing/rows/{name}")
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = new(file, "--force")
    assert "A run accepts all of them." in ended.output, ended.output
    source = written(project).source
    assert isinstance(source, FilesSource)
    return source


def said(project: Path) -> str:
    """The comments of the file that was written, in one line; the screen shows them too."""
    return " ".join(text_of(project).replace("#", " ").split())


def csv_format(source: FilesSource) -> dict[str, Any]:
    if not isinstance(source.format, CsvFormatOptions):
        return {}
    return source.format.csv.model_dump(exclude_defaults=True)


MINUTES = [f"2026-07-01T10:{n:02}:00Z" for n in range(20)]


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv"])
def test_a_first_record_that_is_a_row_is_not_taken_as_names(project: Path, name: str) -> None:
    delimiter = "," if name.endswith("csv") else "\t"
    lines = [delimiter.join([at, "a", "", f"0_{n}", "1.5"]) for n, at in enumerate(MINUTES)]
    source = csv_of(project, "\n".join(lines), name)
    assert csv_format(source) == {
        "header": False, **({} if delimiter == "," else {"delimiter": delimiter})
    }  # fmt: skip
    # One that is null in each row has its place too.
    assert types(written(project)) == {
        "c1": "timestamp not null", "c2": "string not null", "c3": "string",
        "c4": "string not null", "c5": "double not null",
    }  # fmt: skip
    assert "from 20 lines" in text_of(project)
    assert "The first record (`2026-07-01T10:00:00Z, a, , 0_0, 1.5`) was not taken" in said(project)


def test_a_row_of_one_field_or_with_a_value_twice_is_no_header_either(project: Path) -> None:
    assert csv_format(csv_of(project, "\n".join(MINUTES))) == {"header": False}
    twice = "".join(f"{at},7,7\n" for at in MINUTES)
    assert csv_format(csv_of(project, twice)) == {"header": False}


def test_names_are_taken_as_names_and_in_doubt_it_is_told(project: Path) -> None:
    def rows(header: str) -> str:
        return header + "".join(f"{at},{n},x{n}\n" for n, at in enumerate(MINUTES))

    told = "First record taken as names: `"
    assert list(csv_of(project, rows("at,n,x\n")).columns) == ["at", "n", "x"]
    assert told not in said(project)
    # pandas leaves the name of its index empty.
    csv_of(project, rows("at,,x\n"))
    assert told not in said(project)
    assert csv_format(csv_of(project, rows("at,2026,x\n"))) == {}
    assert f"{told}at, 2026, x`. If it is a row, say `header: false`" in said(project)
    assert told in new("warehouse/landing/rows/rows.csv", "--force").output


def test_numbers_with_a_comma_are_proposed_as_such(project: Path) -> None:
    def rows(*values: str) -> str:
        lines = [f"{at};{values[n % len(values)]};{n}" for n, at in enumerate(MINUTES)]
        return "\n".join(["at;amount;n", *lines])

    source = csv_of(project, rows("12,5", "3,25", "1200"))
    assert csv_format(source) == {"delimiter": ";", "decimal": ","}
    assert types(written(project)) == {
        "at": "timestamp not null", "amount": "double not null", "n": "long not null"
    }  # fmt: skip
    assert "Numbers are written with a comma, as `12,5`." in said(project)
    # These may be thousands, so they stay texts.
    source = csv_of(project, rows("1,250", "12,000"))
    assert csv_format(source) == {"delimiter": ";"}
    assert source.columns["amount"].type == "string"
    # Without names too, where the comma could part fields as well.
    lines = "".join(f"12,{n};x\n" for n in range(5))
    file = land(project, [], "landing/other/1.csv")
    file.write_text(lines)
    assert "columns     c1, c2" not in new(file, name="other").output
    assert '{csv: {delimiter: ";", header: false, decimal: ","}}' in text_of(project, "other")


def test_codes_of_digits_some_with_an_e_stay_texts(project: Path) -> None:
    def code(*values: str) -> str:
        lines = [f"{at},{values[n % len(values)]}" for n, at in enumerate(MINUTES)]
        return csv_of(project, "\n".join(["at,code", *lines])).columns["code"].type

    assert code("1001", "12e3", "12000") == "string"
    assert code("1e5", "1E05") == "string"
    assert code("0.5", "12e3", "7") == "double"
    assert code("1e-05", "0") == "double"
    assert code("7", "8") == "long"


def test_whole_numbers_of_more_than_38_digits_keep_them_all(project: Path) -> None:
    lines = [f"{at},{10**39 + n}" for n, at in enumerate(MINUTES)]
    assert list(csv_of(project, "\n".join(["at,account", *lines])).columns) == ["at"]
    assert '"account": a whole number of more than 38 digits, which no type holds' in said(project)
    # A field by its place has to be a column.
    csv_of(project, "\n".join(lines))
    assert types(written(project)) == {"c1": "timestamp not null", "c2": "string"}


def test_another_encoding_is_proposed_where_the_bytes_are_no_utf_8(project: Path) -> None:
    def text(*names: str) -> str:
        return "at,name\n" + "".join(f"{at},{names[n % 2]}\n" for n, at in enumerate(MINUTES))

    for encoding in ("windows-1252", "utf-16"):
        source = csv_of(project, text("Jörg", "x").encode(encoding))
        assert csv_format(source) == {"encoding": encoding}
    csv_of(project, text("Jörg", "x").encode("windows-1252"))
    assert "is `2026-07-01T10:00:00Z,Jörg` right?" in said(project)
    assert csv_format(csv_of(project, text("Jörg", "x"))) == {}
    # One broken line is no encoding, and neither is that of one of two files.
    broken = text("Jörg", "x").encode() + MINUTES[0].encode() + b",\xff\n"
    file = land(project, [], "landing/rows/rows.csv")
    file.write_bytes(broken)
    assert "1 malformed" in new(file, "--force").output
    land(project, [], "landing/rows/2.csv").write_bytes(text("Jürg", "x").encode("windows-1252"))
    assert "malformed" in new("warehouse/landing/rows/*.csv", "--force").output


def test_comments_above_the_records_are_proposed_as_such(project: Path) -> None:
    rows = "".join(f"{at};{n}\n" for n, at in enumerate(MINUTES))
    source = csv_of(project, f"# Made by hand, in July\n# for you\nat;n\n{rows}# more\n")
    assert csv_format(source) == {"delimiter": ";", "comment": "#"}
    assert list(source.columns) == ["at", "n"]
    assert "Lines that begin with are no records." in said(project)
    # A header may begin with it, and so may what is broken further down.
    assert csv_format(csv_of(project, f"#at;n\n{rows}")) == {"delimiter": ";"}
    file = land(project, [], "landing/rows/rows.csv")
    file.write_text(f"at;n\n{rows}#5\n")
    assert "1 malformed" in new(file, "--force").output
