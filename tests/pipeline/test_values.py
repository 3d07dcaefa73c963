"""Durations, types, formats, places and patterns, each by itself."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.running import clicks
from tests.kit.shipped import FILES
from tidemark.pipeline.column_types import parse_type
from tidemark.pipeline.durations import duration_text, parse_duration
from tidemark.pipeline.event_time_formats import check_format
from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.places import Places
from tidemark.pipeline.schema import schema_text
from tidemark.pipeline.source_files import SourceFiles, split_files

PIPELINES = Path(__file__).parents[2] / "include" / "pipelines"


@given(st.integers(min_value=0, max_value=10**13))
def test_a_duration_reads_back_as_it_was_written(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(duration_text(duration)) == duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 minutes", 600),
        ("1 hour 30 minutes", 5400),
        ("1h30m", 5400),
        ("0.5 seconds", 0.5),
        ("2 WEEKS", 1209600),
        ("250 ms", 0.25),
        (" 1 day, 1 second ", 86401),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "10", "minutes", "-1 minute", "1 year", "1.0005 ms", "1 m x", "9999999999 w"]
)
def test_what_is_no_fixed_length_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "type_", "nullable"),
    [
        ("LONG NOT NULL", "long", False),
        ("decimal( 10 , 2 )", "decimal(10,2)", True),
        ("decimal", "decimal", True),
        ("array<struct<a: int, `b c` string>>", "array<struct<a:int,`b c`:string>>", True),
        ("map<string,array<double>> not null", "map<string,array<double>>", False),
    ],
)
def test_a_type_is_read_as_spark_reads_it(text: str, type_: str, nullable: bool) -> None:
    parsed = parse_type(text)
    assert (parsed.type, parsed.nullable) == (type_, nullable)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text",
        "array",
        "array<",
        "array<int",
        "array<int>>",
        "struct<>",
        "struct<a>",
        "int null",
        "decimal(0)",
        "decimal(5,6)",
        "decimal(a)",
        "map<int,int>",
        "int not",
        "varchar(3)",
        "int;",
        "timestamp_ntz",
        "interval",
        "void",
        "map<string>",
        "struct<a: int,>",
        "struct<a: int, A: int>",
        "struct<s: int, `ſ`: int>",
        "array<struct<`k`: int, K: int>>",
    ],
)
def test_what_json_cannot_carry_is_no_type(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_type(text)


@pytest.mark.parametrize("name", ["'a b'", "'a'", "<", ":", ","])
def test_a_field_s_name_is_a_word_or_in_backticks(name: str) -> None:
    with pytest.raises(ValueError, match=f"a field `{name}`; write its name in backticks"):
        parse_type(f"array<struct<{name}: int>>")
    assert parse_type("struct<`'a b'`: int>").type == "struct<`'a b'`:int>"


@pytest.mark.parametrize(
    "text",
    [
        "iso8601",
        "epoch_seconds",
        "epoch_micros",
        "dd/MMM/yyyy:HH:mm:ss Z",
        "yyyy-DDD",
        "yyyyMMdd",
        "yyyy-MM-dd'T'HH:mm[:ss]XXX",
        "d MMM yyyy, h:mm a",
        "dd.MM.yyyy HH:mm:ss.SSS VV",
    ],
)
def test_known_formats_and_spark_patterns_are_taken(text: str) -> None:
    check_format(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "iso",
        "epoch",
        "%Y-%m-%d",
        "YYYY-MM-dd",
        "yyyy",
        "yyyy-MM",
        "HH:mm",
        "yyyy-MM-dd hh:mm",
        "yyyy-MM-dd'T",
        "yyyy-MM-dd [HH",
        "yyyy-MM-dd]",
        "yyyy-MM-dd {HH}",
    ],
)
def test_what_tells_no_instant_is_no_format(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check_format(text)


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("landing/a/*.json*", SourceFiles("landing/a", False, "*.json*")),
        ("landing/a/**/*.json*", SourceFiles("landing/a", True, "*.json*")),
        ("landing/*/2024/x-[0-9].json", SourceFiles("landing/*/2024", False, "x-[0-9].json")),
        ("s3://b/landing/**/*", SourceFiles("s3://b/landing", True, "*")),
        ("file:///data/in/*.json", SourceFiles("file:///data/in", False, "*.json")),
    ],
)
def test_a_pattern_is_a_folder_and_a_name(pattern: str, parts: SourceFiles) -> None:
    assert split_files(pattern) == parts


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "x.json",
        "*/x.json",
        "a/**",
        "a/**/b/*.json",
        "a**/x",
        "a/../b/x",
        "../x/y",
        "/a/b",
        "a/",
        "~/a/b",
        "a\\b\\c",
        " a/b",
        "s3://bucket/*",
        "s3://b/a/../../c/*",
        "**/*.json",
        "landing/.{./.,x/x}/clicks/*.json",
        "landing/[{]/..[}]/x",
        "landing/{a,b/*.json",
        "landing/a}/*.json",
        "landing/[a/b]/*.json",
        "./clicks/bronze/*",
        "landing/./x",
        "landing//x",
        "landing/%2e%2e/clicks/*",
        "landing/a\nb/*",
        "landing/a\x00/*",
        "file:///data/{in/../..,x}/*",
    ],
)
def test_a_pattern_that_leaves_its_place_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        split_files(pattern)


def test_places_lie_below_the_root() -> None:
    places = Places("s3://bucket/lake", "clicks")
    assert places.bronze == "s3://bucket/lake/clicks/bronze"
    assert places.rejects == "s3://bucket/lake/clicks/rejects"
    assert places.ingest_checkpoint == "s3://bucket/lake/clicks/checkpoints/ingest"
    assert places.query_checkpoint("t", 3) == "s3://bucket/lake/clicks/checkpoints/t/3"
    assert places.changes("t", 1) == "s3://bucket/lake/clicks/t/changes"
    assert places.gold("t") == "s3://bucket/lake/clicks/t/gold"
    assert places.lease == "s3://bucket/lake/clicks/lease"
    assert places.source("landing/*.json") == "s3://bucket/lake/landing/*.json"
    assert places.source("gs://other/*.json") == "gs://other/*.json"


def test_each_pipeline_accounts_for_its_rows_and_runs_in_tables_of_its_own() -> None:
    for name in ("clicks", "visits"):
        assert Places("/lake", name).ledger == f"/lake/{name}/ops/ledger"
        assert Places("/lake", name).runs == f"/lake/{name}/ops/runs"
        assert Places("/lake", name).shared_ops == "/lake/ops"


def test_the_result_of_each_try_of_a_run_is_a_file_of_its_own() -> None:
    places = Places("/lake", "clicks")
    run = "scheduled__2024-01-01T00:00:00+00:00"
    safe = "/lake/clicks/results/scheduled__2024-01-01T00_00_00_00_00"
    assert places.result(run) == f"{safe}.json"
    assert places.result(run, 2) == f"{safe}--try2.json"


@given(st.text(max_size=400))
def test_a_result_is_one_file_in_its_folder_whatever_the_run_is_called(run_id: str) -> None:
    name = Places("/lake", "clicks").result(run_id, 1).removeprefix("/lake/clicks/results/")
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) < 255
    assert name.isascii()


def test_the_published_schema_is_current() -> None:
    """Write it anew with `python -m tidemark.pipeline.schema > …/pipeline.schema.json`."""
    published = (PIPELINES / "pipeline.schema.json").read_text("utf-8")
    assert published == schema_text()


def test_the_schema_and_the_loader_agree_on_the_shipped_pipelines() -> None:
    from jsonschema import Draft202012Validator
    from ruamel.yaml import YAML

    validator = Draft202012Validator(json.loads(schema_text()))
    for path in FILES:
        text = path.read_text("utf-8")
        assert text.startswith("# yaml-language-server: $schema=pipeline.schema.json\n")
        content = YAML(typ="safe").load(text)
        assert list(validator.iter_errors(content)) == []
        content["shedule"] = "@daily"
        assert len(list(validator.iter_errors(content))) == 1


def test_the_schema_and_the_loader_agree_on_the_keys_of_rows_and_windows() -> None:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(schema_text()))
    content = clicks(keep="90 days")
    content["source"] |= {"unique": {"by": "key", "within": "7 days"}}
    content["watermark"] |= {"seal_after_idle": "30 minutes"}
    content["tables"]["per_10m"] |= {"output_mode": "complete", "accept_unbounded_state": True}
    pipeline_from_mapping("clicks", content)
    assert list(validator.iter_errors(content)) == []
    wrong = content | {"keep": 90, "watermark": {"delay": "1 day", "seal_after_idle": "soon"}}
    wrong["tables"] = {"per_10m": content["tables"]["per_10m"] | {"output_mode": "all"}}
    wrong["source"] = content["source"] | {"unique": {"by": "key"}}
    fields = {".".join(map(str, error.path)) for error in validator.iter_errors(wrong)}
    assert fields == {
        "keep", "watermark.seal_after_idle", "tables.per_10m.output_mode", "source.unique",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({"window": {"session": "30 minutes"}}, set()),
        ({"window": {"session": 30}}, {"window.session"}),
        ({"window": {"session": "30 minutes", "slide": "5 minutes"}}, {"window"}),
        ({"window": {"session": "30 minutes"}, "output_mode": "update"}, {"output_mode"}),
        ({"window": {"gap": "30 minutes"}}, {"window"}),
    ],
    ids=["good", "no duration", "a slide", "update", "another key"],
)
def test_the_schema_says_where_a_table_of_sessions_is_wrong(
    table: dict[str, object], wrong: set[str]
) -> None:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(schema_text()))
    content = clicks(
        tables={"visits": {"group_by": ["key"], "measures": {"n": "count(*)"}} | table}
    )
    found = {".".join(map(str, error.path)) for error in validator.iter_errors(content)}
    assert found == {f"tables.visits.{field}" for field in wrong}


@pytest.mark.parametrize(
    "text", ["2016-06-01", "2016-06-01T00:00:00Z", "2016-06-01T02:00:00+02:00", "20160601"]
)
def test_an_instant_is_a_time_with_its_zone_or_a_date_at_midnight_in_utc(text: str) -> None:
    assert utc_instant(text) == datetime(2016, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2016-06-01T12:00:00", "has no zone"),
        ("2016-06-31", "is no time"),
        ("yesterday", "is no time"),
        ("0001-01-01T00:00:00+14:00", "is no time"),
    ],
)
def test_what_is_no_instant_is_told_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^'{re.escape(text)}' {why}; write it as in 2026-07-01T"):
        utc_instant(text)
