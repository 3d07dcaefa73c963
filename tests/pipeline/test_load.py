from __future__ import annotations

import errno
import pickle
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kit.running import REPOSITORY
from tests.kit.shipped import NAMES, copied_to
from tidemark.errors import PipelineInvalid, PipelineNotFound, SettingsInvalid
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.load import (
    find_pipeline,
    load_pipeline,
    load_pipelines,
    pipeline_from_mapping,
)
from tidemark.pipeline.model import Pipeline, Unique
from tidemark.pipeline.problems import PipelineFileInvalid, Problem
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.state import PROVIDER, provider_class

Load = Callable[[str], Pipeline]
Problems = Callable[..., tuple[Problem, ...]]
ROCKSDB = provider_class("rocksdb")


def test_a_good_file_becomes_a_pipeline_named_by_the_file(load: Load, good: str) -> None:
    pipeline = load(good)
    assert pipeline.name == "clicks"
    assert pipeline.source.columns["page"].type == "string"
    assert not pipeline.source.columns["page"].nullable
    assert pipeline.source.columns["who"].type == "struct<id:long,names:array<string>>"
    assert pipeline.tables["page_10m"].window.slide == timedelta(minutes=5)
    assert pipeline.tables["page_10m"].group_by == ("page", "slow")
    assert pipeline.source.unknown_fields == "keep"


def test_max_future_is_the_delay_unless_the_file_says_otherwise(load: Load, good: str) -> None:
    assert load(good).source.event_time.max_future == timedelta(minutes=10)
    said = good.replace("{column: at}", "{column: at, max_future: 0 seconds}")
    assert load(said).source.event_time.max_future == timedelta(0)


def test_a_window_without_a_slide_tumbles(load: Load, good: str) -> None:
    window = load(good.replace(", slide: 5 minutes", "")).tables["page_10m"].window
    assert window.slide == window.length == timedelta(minutes=10)


def test_the_shipped_pipelines_load(tmp_path: Path) -> None:
    pipelines, invalid = load_pipelines(copied_to(tmp_path))
    assert tuple(pipeline.name for pipeline in pipelines) == NAMES
    assert invalid == []


def test_a_broken_file_keeps_no_other_from_loading(tmp_path: Path, good: str) -> None:
    (tmp_path / "a.yaml").write_text("nonsense: [")
    (tmp_path / "b.yml").write_text(good)
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / ".hidden.yaml").write_text("x")
    pipelines, invalid = load_pipelines(tmp_path)
    assert [pipeline.name for pipeline in pipelines] == ["b"]
    assert [Path(error.file).name for error in invalid] == ["a.yaml", "c.yaml"]


def test_a_file_whose_link_leads_nowhere_is_told_as_invalid(tmp_path: Path, good: str) -> None:
    (tmp_path / "good.yaml").write_text(good)
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "not_mounted" / "gone.yaml")
    pipelines, invalid = load_pipelines(tmp_path)
    assert [pipeline.name for pipeline in pipelines] == ["good"]
    (one,) = invalid
    assert "gone.yaml" in str(one)
    assert "cannot be read" in str(one)


def test_what_has_a_pipelines_ending_and_is_no_file_of_one_is_told_as_invalid(
    tmp_path: Path, good: str
) -> None:
    (tmp_path / "good.yaml").write_text(good)
    for name in ("BIG.YAML", "mixed.Yml"):
        (tmp_path / name).write_text(good)
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    pipelines, invalid = load_pipelines(tmp_path)
    assert [pipeline.name for pipeline in pipelines] == ["good"]
    told = {Path(error.file).name: str(error) for error in invalid}
    assert list(told) == ["BIG.YAML", "folder.yaml", "mixed.Yml"]
    assert "rename it to BIG.yaml" in told["BIG.YAML"]
    assert "rename it to mixed.yml" in told["mixed.Yml"]
    assert "is a folder" in told["folder.yaml"]


def test_a_folder_that_does_not_exist_holds_no_pipelines(tmp_path: Path) -> None:
    assert load_pipelines(tmp_path / "none") == ([], [])


def test_a_folder_that_may_not_be_read_is_told_and_not_taken_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", denied)
    told = rf"The pipelines' folder {tmp_path} cannot be read: Permission denied"
    with pytest.raises(SettingsInvalid, match=told):
        load_pipelines(tmp_path)


# (what is replaced, by what, the field, line, column, a part of the message, the nearest name)
ONE_PROBLEM = [
    ("description: C", "descripton: C", "descripton", 1, 1, "not a known key", "description"),
    ('"@hourly"', '"@hurly"', "schedule", 2, 12, "not a preset", None),
    ('"@hourly"', '"61 * * * *"', "schedule", 2, 12, "out of range", None),
    ('"@hourly"', '"* * * *"', "schedule", 2, 12, "has 4 fields", None),
    ('"@hourly"', '"0 0 31 2 *"', "schedule", 2, 12, "not a cron expression", None),
    ("landing/clicks/", "landing/**/x/", "source.files", 4, 10, "`**` elsewhere", None),
    ("landing/clicks/", "../clicks/", "source.files", 4, 10, "has `..`", None),
    ("landing/clicks/", "/clicks/", "source.files", 4, 10, "absolute path", None),
    ("landing/clicks/*.json*", "'**/*.json'", "source.files", 4, 11, "name of a folder", None),
    ("landing/clicks/", "clicks/", "source.files", 4, 10, "own folder", None),
    ("landing/clicks/*.json*", "landing/clicks/", "source.files", 4, 10, "names a folder", None),
    ("took: long", "took: lnog", "source.columns.took", 8, 11, "`lnog` is not a type", None),
    ("took: long", "took: decimal(39)", "source.columns.took", 8, 11, "1 to 38 digits", None),
    ("took: long", "_took: long", "source.columns._took", 8, 5, "begins with `_`", None),
    ("map<string, int>", "map<int, int>", "source.columns.tags", 9, 11, "keys of type", None),
    ("{column: at}", "{column: att}", "source.event_time.column", 11, 24, "not a column", "at"),
    ("{column: at}", "{column: took}", "source.event_time.column", 11, 24, "of type long", None),
    ("{column: at}", "{colunm: at}", "source.event_time.colunm", 11, 16, "not a known", "column"),
    (
        "column: at}",
        "column: at, max_future: 11 min}",
        *("source.event_time.max_future", 11, 40, "above the watermark's delay", None),
    ),
    (
        "column: at}",
        "column: at, format: yy-QQ-b}",
        *("source.event_time.format", 11, 36, "do not know (b)", None),
    ),
    (
        "column: at}",
        "column: at, format: HH:mm}",
        *("source.event_time.format", 11, 36, "no year", None),
    ),
    (
        "column: at}",
        "column: at, zone: Europe/Wien}",
        *("source.event_time.zone", 11, 34, "not a zone", None),
    ),
    (
        "column: at}",
        "column: at, zone: UTC, format: epoch_millis}",
        *("source.event_time", 11, 15, "zone has no effect", None),
    ),
    ("slow: took > 500", "slow: tok > 500", "source.derive.slow", 12, 18, "not a column", "took"),
    ("slow: took > 500", "PAGE: took > 500", "source.derive.PAGE", 12, 12, "has the name of", None),
    ("delay: 10 minutes", "delay: 10 monkeys", "watermark.delay", 13, 20, "unit of time", None),
    ("delay: 10 minutes", "delay: 1 month", "watermark.delay", 13, 20, "fixed length", None),
    ("delay: 10 minutes", "delay: 0 minutes", "watermark.delay", 13, 20, "longer than zero", None),
    ("delay: 10 minutes", "delay: 10", "watermark.delay", 13, 20, "not a duration", None),
    ("  page_10m", "  Page10m", "tables.Page10m", 15, 3, "cannot name a table", None),
    ("  page_10m", "  bronze", "tables.bronze", 15, 3, "platform makes", None),
    ("slide: 5 m", "slide: 11 m", "tables.page_10m.window", 16, 13, "longer than length", None),
    (
        "length: 10 minutes, slide: 5 minutes",
        "length: 400 days, slide: 1 second",
        *("tables.page_10m.window.slide", 16, 39),
        *("into 34,560,000 windows, and a run makes a copy for each; at most 1,440", None),
    ),
    (
        "length: 10 minutes, slide: 5 minutes",
        "length: 1440001 milliseconds, slide: 1 second",
        *("tables.page_10m.window.slide", 16, 51, "slide by 2 seconds or more", None),
    ),
    (
        "slide: 5 minutes",
        "slide: 5 microseconds",
        *("tables.page_10m.window.slide", 16, 41, "whole number of milliseconds", None),
    ),
    ("[page, slow]", "[pgae]", "tables.page_10m.group_by.0", 17, 16, "neither a column", "page"),
    ("[page, slow]", "[tags]", "tables.page_10m.group_by.0", 17, 16, "group by maps", None),
    ("[page, slow]", "[page, Page]", "tables.page_10m.group_by.1", 17, 22, "twice", None),
    ("longest:", "Rows:", "tables.page_10m.measures.Rows", 18, 34, "kept for", None),
    ("longest:", "Page:", "tables.page_10m.measures.Page", 18, 34, "same name as the key", None),
    ("longest:", "Clicks:", "tables.page_10m.measures.Clicks", 18, 34, "same name as", None),
    ("max(took)", "max(tok)", "tables.page_10m.measures.longest", 18, 47, "not a column", "took"),
    ("max(took)", "42", "tables.page_10m.measures.longest", 18, 43, "should be text", None),
    (
        "shuffle_partitions: 2",
        "spark: {spark.sql.session.timeZone: x}",
        *("advanced.spark.spark.sql.session.timeZone", 20, 11, "times are UTC", None),
    ),
    (
        "shuffle_partitions: 2",
        "spark: {spark.hadoop.fs.s3a.secret.key: x}",
        *("advanced.spark.spark.hadoop.fs.s3a.secret.key", 20, 11, "is a secret", None),
    ),
    ("  derive", "  unique: {by: pgae, within: 1 d}\n  derive", "source.unique.by", 12, 16,
     "neither a column nor a derived name; known: at, page,", "page"),
    ("  derive", "  unique: {by: tags, within: 1 d}\n  derive", "source.unique.by", 12, 16,
     "is a map", None),
    ("  derive", "  unique: {by: 5, within: 1 d}\n  derive", "source.unique.by", 12, 16,
     "should be text", None),
    ("  derive", "  unique: {by: page}\n  derive", "source.unique.within", 12, 11,
     "is missing", None),
    ("  derive", "  unique: {by: page, within: 0 d}\n  derive", "source.unique.within", 12, 30,
     "longer than zero", None),
    ("  derive", "  unique: {by: page, witin: 1 d}\n  derive", "source.unique.witin", 12, 22,
     "not a known key; allowed: by, within", "within"),
    ("  derive", "  unique: page\n  derive", "source.unique", 12, 11,
     "mapping with the keys by, within", None),
    ("10 minutes}\n", "10 minutes, seal_after_idle: 0 s}\n", "watermark.seal_after_idle", 13, 49,
     "longer than zero", None),
    ("10 minutes}\n", "10 minutes, seal_after_idel: 1 h}\n", "watermark.seal_after_idel", 13, 32,
     "not a known key; allowed: delay, seal_after_idle", "seal_after_idle"),
    ("tables:", "keep: 3 months\ntables:", "keep", 14, 7, "has no fixed length", None),
    ("tables:", "kept: 3 days\ntables:", "kept", 14, 1, "not a known key", "keep"),
    (
        "tables:",
        "keep: 20 min\ntables:",
        *("keep", 14, 7, "delay (10 minutes) plus the longest window (10 minutes)", None),
    ),
    ("  page_10m", "  lease", "tables.lease", 15, 3, "platform makes", None),
    ("    group", "    output_mode: uptade\n    group", "tables.page_10m.output_mode", 17, 18,
     "allowed: 'update', 'append' or 'complete'", None),
    ("    group", "    output_mode: complete\n    group", "tables.page_10m.output_mode", 17, 18,
     "grows for ever; say `accept_unbounded_state: true`", None),
    *[
        (
            "    group",
            f"    accept_unbounded_state: true\n{mode}    group",
            *("tables.page_10m.accept_unbounded_state", 17, 29, "has no effect", None),
        )
        for mode in ("", "    output_mode: append\n", "    output_mode: update\n")
    ],
    (
        "    group",
        '    accept_unbounded_state: "yes"\n    group',
        *("tables.page_10m.accept_unbounded_state", 17, 30, "should be true or false", None),
    ),
    (
        "    group",
        "    stream: recompute\n    output_mode: complete\n    accept_unbounded_state: true\n"
        "    group",
        *("tables.page_10m.stream", 17, 13, "is not possible in `output_mode: complete`", None),
    ),
    ("    group", "    stream: recomptue\n    output_mode: append\n    group",
     "tables.page_10m.stream", 17, 13, "allowed: 'engine' or 'recompute'", None),
    ("shuffle_partitions: 2", "state: {store: rocks}", "advanced.state.store", 20, 18,
     "allowed: 'memory' or 'rocksdb'", None),
    ("shuffle_partitions: 2", f"state: {{store: memory}}\n  spark: {{{PROVIDER}: {ROCKSDB}}}",
     f"advanced.spark.{PROVIDER}", 21, 11, "`advanced.state.store` has it too", None),
    ("shuffle_partitions: 2", "shuffle_partitions: many", "advanced.shuffle_partitions", 20, 23,
     "whole number", None),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "field", "line", "column", "message", "near"),
    ONE_PROBLEM,
)
def test_one_mistake_is_one_problem_with_its_place(
    problems: Problems,
    old: str,
    new: str,
    field: str,
    line: int,
    column: int,
    message: str,
    near: str | None,
) -> None:
    # Where a name is mistaken, what uses it is found too; the mistake itself is one problem.
    found = [problem for problem in problems((old, new)) if problem.field == field]
    assert len(found) == 1
    assert (found[0].line, found[0].column, found[0].nearest) == (line, column, near)
    assert message in found[0].message


@pytest.mark.parametrize("store", ["s3://me:hush@b", "s3://me%3Ahush@b", "abfss://c:hu@sh@b"])
def test_a_login_in_the_sources_address_is_refused_and_not_told(
    problems: Problems, store: str
) -> None:
    (found,) = problems(("landing/clicks/", f"{store}/landing/"))
    assert found.field == "source.files"
    assert "has a user, password or port" in str(found)
    assert not [secret for secret in ("hush", "sh@") if secret in str(found)]


def test_all_problems_of_a_file_come_at_once_in_its_order(problems: Problems) -> None:
    found = problems(
        ("@hourly", "@never"),
        ("took: long", "took: lnog"),
        ("took > 500", "rand() > 500"),
        ("delay: 10", "delay: ten"),
        ("count(*)", "first(page)"),
        ("shuffle_partitions", "shufle_partitions"),
    )
    assert [problem.line for problem in found] == [2, 8, 12, 13, 18, 20]


def test_a_column_of_a_bad_type_is_still_a_column(problems: Problems) -> None:
    found = problems(("took: long", "took: lnog"))
    assert [problem.field for problem in found] == ["source.columns.took"]


def test_a_column_name_twice_in_another_case_is_refused(problems: Problems) -> None:
    found = problems(("    took: long", "    took: long\n    TOOK: int"))
    assert ["`took`" in problem.message for problem in found] == [True]


def test_a_key_that_stands_twice_is_refused(problems: Problems) -> None:
    (found,) = problems(("description: Clicks", "description: Clicks\ndescription: Again"))
    assert (found.line, found.column, found.field) == (2, 1, "description")
    assert found.message == "stands twice; first in line 1"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty"),
        ("# only a comment\n", 1, "the file is empty"),
        ("- a\n- b\n", 1, "the file is not a mapping"),
        ("text\n", 1, "the file is not a mapping"),
        ("a: 1\nb:\n\tc: 2\n", 3, "not tabs"),
        ("a: [1\nb: 2\n", 2, "is not YAML"),
        ("a: 'x\n", 2, "is not YAML"),
        ("a: *nowhere\n", 1, "is not YAML"),
    ],
)
def test_what_is_no_yaml_mapping_is_one_problem(
    problems: Problems, text: str, line: int, message: str
) -> None:
    (found,) = problems(text=text)
    assert found.line == line
    assert message in found.message


def test_a_value_that_contains_itself_is_refused(problems: Problems) -> None:
    assert any("contains itself" in p.message for p in problems(text="source: &a\n  files: *a\n"))


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "has too many keys and values: at most 10,000, with those of aliases"),
        (BOMB + "? *a9\n: 1\n", "has too many keys and values"),
        ("a: [" + "1," * 20_000 + "]\n", "has too many keys and values"),
        ("a: " + "[" * 400 + "]" * 400, "is nested too deeply: at most 30 levels"),
        ("".join(" " * depth + "a:\n" for depth in range(400)), "is nested too deeply"),
        ("a: " + "x" * 300_000, "is too large: a pipeline file has at most 262,144 bytes"),
    ],
)
def test_a_file_that_would_take_all_time_or_memory_is_refused_at_once(
    problems: Problems, text: str, message: str
) -> None:
    began = time.process_time()
    (found,) = problems(text=text)
    assert message in found.message
    assert time.process_time() - began < 10


def test_aliases_that_repeat_little_are_taken(load: Load, good: str) -> None:
    text = good.replace("page: string not null", "page: &text string\n    other: *text")
    assert "other" in load(text).source.columns


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("page: string not null", '"pa\\u0007ge": string', "has the character '\\x07'"),
        ("page: string not null", "é" * 128 + ": string", "has 256 bytes, at most 255"),
        ("page_10m:", '"page\\u0000": ', "cannot name a table"),
        ("clicks: count", '"cli\\u200bcks\\u2028": count', "has the character '\\u2028'"),
        ("description: Clicks", 'description: "x\\ud800"', r"has half a character: `x\ud800`"),
        ("description: Clicks", '"x\\ud800": Clicks', r"has half a character: `x\ud800`"),
        ("took: long", "took: " + "array<" * 400 + "int" + ">" * 400, "is nested too deeply"),
        ("took: long", "took: struct<" + "a:int," * 4_000 + "b:int>", "is too long for a type"),
        ("took > 500", "length(space(1000000000)) > 5", "space makes 1,000,000,000"),
    ],
)
def test_what_no_name_or_value_may_be_is_told(
    problems: Problems, old: str, new: str, message: str
) -> None:
    assert any(message in found.message for found in problems((old, new)))


def test_whatever_a_check_stumbles_over_is_a_problem_of_the_file(
    load: Load, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*given: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("tidemark.pipeline.load.find_broken_rules", stumble)
    with pytest.raises(PipelineFileInvalid, match="could not be checked: RecursionError: maximum"):
        load(good)


def test_a_file_that_says_its_name_is_refused(problems: Problems) -> None:
    (found,) = problems(("description: Clicks", "name: clicks"))
    assert "the file's name is the pipeline's name" in found.message


def test_a_file_whose_name_cannot_name_a_pipeline_is_refused(tmp_path: Path, good: str) -> None:
    path = tmp_path / "My-Clicks.yaml"
    path.write_text(good)
    with pytest.raises(PipelineInvalid, match="`My-Clicks`: cannot name a pipeline"):
        load_pipeline(path)


def test_missing_keys_are_named(problems: Problems) -> None:
    found = problems(text="description: x\nsource: {files: a/*.json}\n")
    assert [problem.field for problem in found if problem.message == "is missing"] == [
        "watermark",
        "tables",
        "source.columns",
        "source.event_time",
    ]


def test_early_events_may_close_windows_where_the_file_says_so(load: Load, good: str) -> None:
    accepted = "{column: at, max_future: 2 hours, accept_early_close: true}"
    event_time = load(good.replace("{column: at}", accepted)).source.event_time
    assert event_time.max_future == timedelta(hours=2)


def test_what_a_file_leaves_out_has_its_default(load: Load, good: str) -> None:
    pipeline = load(good)
    assert (pipeline.source.unique, pipeline.keep) == (None, None)
    assert pipeline.watermark.seal_after_idle is None
    assert pipeline.tables["page_10m"].output_mode == "update"
    assert not pipeline.tables["page_10m"].accept_unbounded_state


def test_uniqueness_sealing_and_retention_are_read(load: Load, good: str) -> None:
    text = good.replace("  derive", "  unique: {by: PAGE, within: 7 days}\n  derive")
    text = text.replace("delay: 10 minutes", "delay: 10 minutes, seal_after_idle: 30 min")
    pipeline = load(text.replace("tables:", "keep: 90 days\ntables:"))
    assert pipeline.source.unique == Unique(by="PAGE", within=timedelta(days=7))
    assert pipeline.watermark.seal_after_idle == timedelta(minutes=30)
    assert pipeline.keep == timedelta(days=90)


@pytest.mark.parametrize("by", ["slow", "who", "took"])
def test_rows_are_unique_by_a_derived_name_or_a_column_without_a_map(
    problems: Problems, by: str
) -> None:
    assert problems(("  derive", f"  unique: {{by: {by}, within: 1 d}}\n  derive")) == ()


def test_a_map_within_a_struct_cannot_be_unique(problems: Problems) -> None:
    by_who = "  unique: {by: who, within: 1 d}\n  derive"
    (found,) = problems(("names: array<string>", "names: map<string, int>"), ("  derive", by_who))
    assert found.field == "source.unique.by"


def test_a_column_of_a_bad_type_can_be_unique(problems: Problems) -> None:
    by_took = "  unique: {by: took, within: 1 d}\n  derive"
    found = problems(("took: long", "took: lnog"), ("  derive", by_took))
    assert [problem.field for problem in found] == ["source.columns.took"]


@pytest.mark.parametrize(
    "lines",
    [
        "output_mode: append",
        "output_mode: update",
        "output_mode: append\n    accept_unbounded_state: false",
        "output_mode: complete\n    accept_unbounded_state: true",
    ],
)
def test_each_output_mode_is_taken_and_complete_where_its_state_is_accepted(
    problems: Problems, lines: str
) -> None:
    assert problems(("    group", f"    {lines}\n    group")) == ()


@pytest.mark.parametrize(
    "lines",
    [
        "output_mode: compelte\n    accept_unbounded_state: true",
        "output_mode: complete\n    accept_unbounded_state: 1",
    ],
)
def test_a_wrong_value_about_the_output_mode_is_one_problem(problems: Problems, lines: str) -> None:
    assert len(problems(("    group", f"    {lines}\n    group"))) == 1


WINDOW = "window: {length: 10 minutes, slide: 5 minutes}"


@pytest.mark.parametrize(
    ("window", "opened"),
    [
        (WINDOW, True),
        (f"{WINDOW}\n    output_mode: append", False),
        ("window: {session: 5 m}", False),
    ],
)
def test_what_is_not_emitted_each_time_can_be_recomputed(
    load: Load, good: str, window: str, opened: bool
) -> None:
    table = load(good.replace(WINDOW, f"{window}\n    stream: recompute")).tables["page_10m"]
    assert (table.recomputes, table.recomputes_open) == (True, opened)
    assert not load(good).tables["page_10m"].recomputes


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("{session: 0 s}", ["tables.page_10m.window.session: `0 s`: must be longer than zero."]),
        ("{session: 5}", ["tables.page_10m.window.session: `5`: is not a duration; write"]),
        ("{session: 3651 d}", ["window.session: `3651 d`: is longer than 3650 days."]),
        ("{session: 5 m, slide: 1 m}", ["window.slide: is not a known key; allowed: session."]),
        (
            "{sesion: 5 m}",
            ["slide, offset, session. Did you mean `session`?"],
        ),
        ("{session: 5 m}\n    output_mode: update", ["Spark emits them in append or complete"]),
        ("{session: 5 m}\n    output_mode: complete", ["keeps every session in its state"]),
    ],
)
def test_what_is_wrong_with_a_table_of_sessions_is_told_in_words_of_sessions(
    problems: Problems, window: str, told: list[str]
) -> None:
    found = problems((WINDOW, f"window: {window}"))
    assert len(found) == len(told)
    assert all(words in problem.text for words, problem in zip(told, found, strict=True))


def test_a_window_is_no_longer_than_times_reach_back_from_1970(
    load: Load, problems: Problems, good: str
) -> None:
    def within(length: str) -> tuple[str, str]:
        return WINDOW, f"window: {{length: {length}, slide: 365000 days}}"

    operator = operator_of(load(good.replace(*within("365000 days"))), "page_10m")
    assert operator.first_start_touching(datetime(1970, 1, 1, tzinfo=UTC)).year == 970
    (found,) = problems(within("365001 days"))
    assert found.text == (
        "tables.page_10m.window.length: `365001 days`: is longer than 365000 days."
    )


def test_sessions_need_keys_and_begin_in_append_mode(
    load: Load, problems: Problems, good: str
) -> None:
    (found,) = problems((WINDOW, "window: {session: 5 m}"), ("group_by: [page, slow]", ""))
    assert "sessions need `group_by`" in found.text
    assert load(good.replace(WINDOW, "window: {session: 5 m}")).tables["page_10m"].output_mode == (
        "append"
    )


def test_keep_is_longer_than_the_delay_and_the_longest_window_together(problems: Problems) -> None:
    longer = "tables:\n  day: {window: {length: 1 d}, measures: {n: count(*)}}"
    (found,) = problems(("tables:", f"keep: 1450 minutes\n{longer}"))
    assert found.text == (
        "keep: `1450 minutes`: is not longer than the watermark's delay (10 minutes) plus the "
        "longest window (1 day): windows would freeze while they are open."
    )
    assert problems(("tables:", f"keep: 1450 minutes 1 millisecond\n{longer}")) == ()
    assert problems(("tables:", "keep: 20 minutes 1 millisecond\ntables:")) == ()


def test_the_longest_of_durations_are_compared_too(problems: Problems) -> None:
    longest = "999999999 days"
    (found,) = problems(
        ("delay: 10 minutes", f"delay: {longest}"),
        ("length: 10 minutes, slide: 5 minutes", "length: 365000 days"),
        ("tables:", f"keep: {longest}\ntables:"),
    )
    assert found.field == "keep"


def test_the_folder_of_the_tables_of_all_pipelines_names_no_pipeline(
    tmp_path: Path, good: str
) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(good)
    with pytest.raises(PipelineInvalid, match="`ops`: names a folder that the platform makes"):
        load_pipeline(path)


def test_the_names_of_a_pipelines_folders_do_for_pipelines_and_ops_for_a_table(
    tmp_path: Path, good: str
) -> None:
    path = tmp_path / "lease.yaml"
    path.write_text(good.replace("page_10m", "ops"))
    assert list(load_pipeline(path).tables) == ["ops"]


def test_the_report_of_a_file_reads_as_text(load: Load, good: str) -> None:
    text = good.replace("max(took)", "max(tok)").replace("slide: 5", "slide: 50")
    text = text.replace("@hourly", "@hourli")
    with pytest.raises(PipelineFileInvalid) as raised:
        load(text)
    file = raised.value.file
    assert str(raised.value) == textwrap.dedent(
        f"""\
        {file}: 3 problems
          line 2, column 12: schedule: `@hourli`: is not a preset (nearest: `@hourly`); allowed: \
@hourly, @daily, @weekly, @monthly, @quarterly, @yearly.
          line 16, column 13: tables.page_10m.window: slide is longer than length: rows between \
windows would be lost.
          line 18, column 47: tables.page_10m.measures.longest: `max(tok)`: `tok` is not a column; \
known: at, page, took, tags, who, slow, very_slow. Did you mean `took`?"""
    )


def test_the_report_of_a_hopeless_file_stays_short(load: Load, good: str) -> None:
    keys = "".join(f"key_{number}: {'x' * 500}\n" for number in range(200))
    with pytest.raises(PipelineFileInvalid) as raised:
        load(good + keys)
    assert len(raised.value.problems) == 200
    assert str(raised.value).endswith("… and 175 more")
    assert len(str(raised.value)) < 8000


def test_an_invalid_file_survives_pickling(load: Load) -> None:
    with pytest.raises(PipelineFileInvalid) as raised:
        load("")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_mapping_is_checked_like_a_file() -> None:
    content = {
        "source": {
            "files": "landing/x/*.json",
            "columns": {"at": "timestamp"},
            "event_time": {"column": "at"},
        },
        "watermark": {"delay": "1 day"},
        "tables": {"daily": {"window": {"length": "1 day"}, "measures": {"n": "count(*)"}}},
    }
    assert pipeline_from_mapping("x", content).tables["daily"].measures == {"n": "count(*)"}
    content["watermark"] = {"delay": "1 dy"}
    with pytest.raises(PipelineFileInvalid, match=r"watermark\.delay"):
        pipeline_from_mapping("x", content)


def test_a_pipeline_is_found_by_name_and_by_path(tmp_path: Path, good: str) -> None:
    (tmp_path / "clicks.yaml").write_text(good)
    settings = Settings(root=str(tmp_path), pipelines=str(tmp_path))
    assert find_pipeline("clicks", settings).name == "clicks"
    assert find_pipeline(str(tmp_path / "clicks.yaml"), settings).name == "clicks"
    with pytest.raises(PipelineNotFound, match="Did you mean `clicks`"):
        find_pipeline("click", settings)
    with pytest.raises(PipelineNotFound, match=r"no pipeline file .*nope\.yaml"):
        find_pipeline(str(tmp_path / "nope.yaml"), settings)


@pytest.mark.slow
def test_loading_is_quick_and_imports_nothing_heavy(tmp_path: Path) -> None:
    code = f"""
import sys, time
start = time.process_time()
from pathlib import Path
import tidemark.pipeline.load
assert len(tidemark.pipeline.load.load_pipelines(Path({str(copied_to(tmp_path))!r}))[0]) == 2
import tidemark.pipeline.settings.settings
heavy = ("pyspark", "pandas", "deltalake", "great_expectations", "duckdb", "pyarrow", "airflow")
assert not [name for name in heavy if name in sys.modules]
print(time.process_time() - start)
"""
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(seconds) < 1


def test_two_files_of_one_name_are_both_refused(tmp_path: Path) -> None:
    content = (REPOSITORY / "include" / "pipelines" / "access_log.yaml").read_text()
    for ending in ("yaml", "yml"):
        (tmp_path / f"clicks.{ending}").write_text(content)
    pipelines, invalid = load_pipelines(tmp_path)
    assert pipelines == []
    assert ["shares its name" in str(error) for error in invalid] == [True, True]
