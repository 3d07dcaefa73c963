"""What a pipeline's file may say of the format of its files."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import CsvFormat, CsvFormatOptions, FilesSource
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.sources.formats.csv_form import BOOLEAN, NUMBER, CsvValue
from tidemark.sources.formats.formats import (
    AVRO,
    CSV,
    JSON_DOCUMENT,
    JSON_LINES,
    PARQUET,
    csv_form,
    format_of,
)


def source_of(**source: Any) -> FilesSource:
    pipeline = pipeline_from_mapping("p", clicks(source={**clicks()["source"], **source}))
    assert isinstance(pipeline.source, FilesSource)
    return pipeline.source


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.json", JSON_LINES), ("a.log", JSON_LINES), ("a.csv", CSV), ("A.CSV.GZ", CSV),
        ("a.tsv.zst", CSV), ("a.parquet", PARQUET), ("a.avro", AVRO), ("a.csv.json", JSON_LINES),
    ],
)  # fmt: skip
def test_a_file_is_what_its_name_says_where_nothing_else_does(name: str, kind: str) -> None:
    assert format_of(None, f"file:///landing/{name}") == kind
    assert format_of("parquet", f"file:///landing/{name}") == PARQUET
    assert format_of("json_document", f"file:///landing/{name}") == JSON_DOCUMENT
    assert format_of(CsvFormatOptions(csv=CsvFormat()), f"file:///landing/{name}") == CSV


def test_the_form_of_a_csv_file_is_what_the_pipeline_says_with_the_kinds_of_its_columns() -> None:
    columns: dict[str, Any] = {
        "at": "timestamp", "amount": "decimal(10,2) not null", "b": "boolean"
    }  # fmt: skip
    columns["key"] = "string"
    form = csv_form(source_of(columns=columns, format={"csv": {"nulls": ["", "NA"]}}), "a.csv")
    assert (form.nulls, form.delimiter) == (("", "NA"), ",")
    assert form.values == (("amount", CsvValue(NUMBER)), ("b", CsvValue(BOOLEAN)))
    assert form.names == ("at", "amount", "b", "key")
    assert csv_form(source_of(), "a.tsv.gz").delimiter == "\t"
    columns["amount"] = {"type": "double", "field": "Amount (EUR)"}
    form = csv_form(source_of(columns=columns), "a.csv")
    assert form.names == ("at", "Amount (EUR)", "b", "key")
    assert form.values == (("Amount (EUR)", CsvValue(NUMBER)), ("b", CsvValue(BOOLEAN)))
    columns["b"] = {"type": "boolean", "nulls": ["-"], "trim": True}
    epochs = {"columns": columns, "nulls": ["NA"], "event_time": {"column": "at"}}
    epochs["event_time"]["format"] = "epoch_seconds"
    assert dict(csv_form(source_of(**epochs), "a.csv").values) == {
        "at": CsvValue(NUMBER, nulls=("NA",)),
        "Amount (EUR)": CsvValue(NUMBER, nulls=("NA",)),
        "b": CsvValue(BOOLEAN, trim=True, nulls=("-",)),
    }


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"format": "excel"}, "json_document"),
        ({"format": {"csv": {"delimiter": ";;"}}}, "delimiter"),
        ({"format": {"csv": {"delimiter": '"'}}}, "have to differ"),
        ({"format": {"csv": {"decimal": ","}}}, "the point of numbers is the delimiter"),
        ({"format": {"csv": {"comment": "\n"}}}, "no end of a line"),
        ({"format": {"csv": {"encoding": "klingon"}}}, "no encoding of text"),
        ({"format": {"csv": {"encoding": "zlib"}}}, "no encoding of text"),
        ({"format": "csv", "columns": {"at": "timestamp", "x": "array<int>"}}, "is one value"),
        (
            {
                "format": {"csv": {"header": False}},
                "when": {"field": "type", "in": ["x"]},
            },
            "`when` asks for the field `type`, which is no column, and files without a header",
        ),
        (
            {"files": "landing/*.csv.gz", "columns": {"at": "timestamp", "x": "map<string,int>"}},
            "is one value",
        ),
    ],
)
def test_what_no_file_can_be_is_refused(source: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineFileInvalid) as found:
        source_of(**source)
    assert told in str(found.value)


@pytest.mark.parametrize(
    ("files", "is_csv"),
    [
        ("landing/*.csv", True), ("landing/*.CSV", True), ("landing/**/*.tsv.Gz", True),
        ("landing/*.csv*", True), ("landing/*.csv.*", True), ("landing/a.csv.zst*", True),
        ("exports.csv.d/2026/*.json", False), ("landing.csv/*", False), ("landing/*", False),
        ("landing/*.csv.json", False), ("landing/*csv", False),
    ],
)  # fmt: skip
def test_a_pattern_is_of_csv_where_its_names_end_so(files: str, is_csv: bool) -> None:
    columns = {**clicks()["source"]["columns"], "x": "array<int>"}
    if not is_csv:
        assert source_of(files=files, columns=columns).columns["x"].type == "array<int>"
        return
    with pytest.raises(PipelineFileInvalid, match="is one value"):
        source_of(files=files, columns=columns)


def test_when_may_ask_for_a_column_of_a_file_without_a_header() -> None:
    kind = {"type": "string", "field": "Type"}
    columns = {**clicks()["source"]["columns"], "kind": kind}
    when = {"field": "Type", "in": ["x"]}
    written = {"csv": {"header": False}}
    assert source_of(columns=columns, when=when, format=written).when is not None


def test_another_format_is_a_safe_change() -> None:
    old, new = [
        pipeline_from_mapping("p", clicks(source={**clicks()["source"], **more}))
        for more in ({}, {"format": {"csv": {"delimiter": ";"}}})
    ]
    (change,) = FilesSourceHandle.changes(old, new)
    assert (change.what, change.before) == ("source.format", "by name")
    assert change.after == '{"csv": {"delimiter": ";"}}'
    assert not change.verdict.refused
