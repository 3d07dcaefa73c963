"""`tidemark new`: what it proposes from samples, and what it says of those that it cannot use."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.kit.running import REPOSITORY
from tidemark.cli.main import app
from tidemark.cli.new import sample as samples
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.yaml_file import Document, parse_document

ROWS = [
    {"id": "a", "at": "2026-03-01T09:00:00Z", "shop": "one", "amount": 1.5, "paid": True},
    {"id": "b", "at": "2026-03-01T11:00:00Z", "shop": "two", "amount": 2, "paid": False},
    {"id": "c", "at": "2026-03-01T10:40:00Z", "shop": "one", "amount": None, "paid": False},
    {"id": "d", "at": "2026-03-01T12:10:00Z", "shop": "two", "amount": 4, "paid": True},
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, to work in; its root is `warehouse`."""
    for name in ("ROOT", "PIPELINES", "SETTINGS"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "settings.yaml").write_text(
        "root: ../warehouse\npipelines: pipelines\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def land(
    project: Path, rows: Iterable[Mapping[str, Any] | str], name: str = "landing/orders/1.json"
) -> Path:
    file = project / "warehouse" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


def new(sample: Path | str, *arguments: str, name: str = "orders") -> Result:
    return CliRunner().invoke(app, ["new", name, "--from", str(sample), *arguments])


def text_of(project: Path, name: str = "orders") -> str:
    return (project / "include" / "pipelines" / f"{name}.yaml").read_text()


def written(project: Path, name: str = "orders") -> Pipeline:
    return load_pipeline(project / "include" / "pipelines" / f"{name}.yaml")


def proposed(project: Path, rows: Iterable[Mapping[str, Any] | str], *arguments: str) -> Pipeline:
    ended = new(land(project, rows), *arguments)
    assert ended.exit_code == 0, ended.stderr
    return written(project)


def types(pipeline: Pipeline) -> dict[str, str]:
    columns = pipeline.source.columns.items()
    return {n: c.type if c.nullable else f"{c.type} not null" for n, c in columns}


def test_each_part_of_a_pipeline_is_proposed(project: Path) -> None:
    pipeline = proposed(project, ROWS)
    source = pipeline.source
    assert source.files == "landing/orders/*.json*"
    assert types(pipeline) == {
        "id": "string not null", "at": "timestamp not null", "shop": "string not null",
        "amount": "double", "paid": "boolean not null",
    }  # fmt: skip
    assert (source.event_time.column, source.event_time.format) == ("at", "iso8601")
    assert source.unique is not None
    assert source.unique.by == "id"
    assert pipeline.watermark.delay == timedelta(hours=1)
    table = pipeline.tables["per_hour"]
    assert (table.window.length, table.group_by) == (timedelta(hours=1), ("shop",))
    assert table.measures == {
        "events": "count(*)", "paid_count": "count_if(paid)", "amount_sum": "sum(amount)",
    }  # fmt: skip
    assert "came up to 20 minutes after a newer one" in text_of(project)


def test_the_command_says_what_it_wrote_and_what_comes_next(project: Path) -> None:
    file = land(project, [*ROWS, "no JSON"])
    ended = new(file)
    told = ended.output.splitlines()
    assert told[0] == (
        "orders: proposed from 5 lines. A run accepts 4 of them and rejects 1 (1 malformed)."
    )
    assert "event time  at" in told
    assert "malformed: 1 line, the first: " in ended.output
    assert f"Written: {project}/include/pipelines/orders.yaml" in told
    assert any("tidemark try orders" in line for line in told)


def test_the_same_sample_gives_the_same_file(project: Path) -> None:
    file = land(project, ROWS)
    new(file)
    first = text_of(project)
    assert new(file, "--force").exit_code == 0
    assert text_of(project) == first


def test_a_file_that_exists_is_replaced_only_when_asked(project: Path) -> None:
    file = land(project, ROWS)
    pipelines = project / "include" / "pipelines"
    pipelines.mkdir()
    (pipelines / "orders.yaml").write_text("mine")
    refused = new(file)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("PipelineExists: ")
    assert "replace it with --force" in refused.stderr
    assert text_of(project) == "mine"
    assert new(file, "--force").exit_code == 0
    (pipelines / "orders.yaml").rename(pipelines / "orders.yml")
    assert "orders.yml is this pipeline's file already" in new(file, "--force").stderr
    assert [path.name for path in pipelines.iterdir()] == ["orders.yml"]


def test_a_sample_elsewhere_is_named_by_its_uri(project: Path) -> None:
    folder = project / "my data"
    folder.mkdir()
    land(project, ROWS).rename(folder / "x.ndjson.gz.txt")
    told = new("my data/x.ndjson.gz.txt")
    assert told.exit_code == 0
    assert f'`sources: ["file://{project}/my data"]`' in told.output.replace("\n", " ")
    assert written(project).source.files == f"file://{project}/my data/*.ndjson*"


def test_a_sample_elsewhere_whose_path_no_uri_can_have_is_refused(project: Path) -> None:
    land(project, ROWS).rename(project / "100%.json")
    refuses(project, new("100%.json"), "Rename it, or land it below ")


def test_files_beside_a_sample_that_a_run_reads_too_are_counted(project: Path) -> None:
    one = land(project, ROWS)
    assert "takes" not in new(one).output
    land(project, ROWS, "landing/orders/2.json.gz")
    land(project, ROWS, "landing/orders/3.csv")
    ended = new(one, "--force")
    assert "`landing/orders/*.json*` takes 1 other file too." in ended.output
    (file,) = project.rglob("orders.yaml")
    assert "takes 1 other file too." in file.read_text()
    assert "takes" not in new("warehouse/landing/orders/*.json*", "--force").output


def test_a_field_that_is_no_column_keeps_no_name_from_its_twin(project: Path) -> None:
    rows = [{**row, "note": None, "NOTE": "x"} for row in ROWS]
    assert "NOTE" in proposed(project, rows).source.columns


def test_a_pattern_is_kept_and_its_files_are_read_by_name(project: Path) -> None:
    land(project, ROWS[2:], "landing/orders/b/2.json.gz")
    land(project, ROWS[:2], "landing/orders/a/1.json")
    ended = new("warehouse/landing/orders/**/*.json*")
    assert "proposed from 4 lines. A run accepts all of them." in ended.output, ended.stderr
    assert written(project).source.files == "landing/orders/**/*.json*"
    assert next(iter(written(project).source.columns)) == "id"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2**63], "decimal(38,0) not null"),
        ([1, 2.5, 2**63, None], "double"),
        ([10**38, 1], None),
        ([10**38, 1.5], None),
        ([[10**38]], None),
        ([1.0, 2], "double not null"),
        (["1", "2"], "string not null"),
        ([True, None], "boolean"),
        (["2026-01-01T00:00:00+02:00", "2026-01-01 10:00Z"], "timestamp not null"),
        (["2026-01-01T00:00:00", "2026-01-01T10:00:00Z"], "string not null"),
        (["2026-01-01", "2026-02-31"], "string not null"),
        (["2026-01-01", "2026-02-28"], "date not null"),
        ([[1], [2.5], []], "array<double> not null"),
        ([{"a": 1, "b": {"c": "x"}}, {"d": [True]}],
         "struct<a:long,b:struct<c:string>,d:array<boolean>> not null"),
        ([*[1] * 9, "x"], "long not null"),
        ([[], None], None),
        ([{"a": 1}, {"A": 1}], None),
        ([{"a b": 1}], None),
        ([{}], None),
        ([[1, "x"]], None),
        ([1, "x"], None),
        ([None], None),
    ],
)  # fmt: skip
def test_a_field_gets_the_type_that_takes_its_values(
    project: Path, values: list[Any], expected: str | None
) -> None:
    rows = [{"at": "2026-03-01T09:00:00Z", "x": value} for value in values]
    assert types(proposed(project, rows)).get("x") == expected
    if expected is None:
        assert '#   "x": ' in text_of(project)


def test_whole_numbers_that_a_double_rounds_are_told(project: Path) -> None:
    at = {"at": "2026-03-01T09:00:00Z"}
    rows = [at | {"ref": 2**53 + n, "ratio": 1, "text": f"{2**53 + n}"} for n in range(4)]
    pipeline = proposed(project, [*rows, at | {"ref": 0.5, "ratio": 0.5, "text": "0.5"}])
    assert set(types(pipeline).values()) == {"timestamp not null", "double not null"}
    told = "# rounds the whole number of 2 rows: ids? decimal(p,s) is exact"
    text = text_of(project)
    assert f"    ref: double not null   {told}" in text
    assert f"    text: {{type: double not null, from_text: true}}   {told}" in text
    assert text.count("rounds") == 2


def test_fields_that_cannot_be_columns_are_named_with_the_reason(project: Path) -> None:
    row = {"at": "2026-03-01T09:00:00Z", "n": 1, "": 1, "k": "v", "_key": "v", "a\u200b": 1}
    pipeline = proposed(project, [row, row | {"k": 7}])
    assert list(pipeline.source.columns) == ["at", "n"]
    text = text_of(project)
    assert '#   "k": of several types (text in 1, number in 1)' in text
    for name in ("", "_key", "a\\u200b"):
        assert f'#   "{name}": is empty, a column of Kafka' in text


def test_a_field_whose_name_is_none_of_a_column_is_read_under_another(project: Path) -> None:
    row = {
        "Time (UTC)": "2026-03-01T09:00:00Z", "Amount, net (€)": 1.5, "Sepal.Length": 2.5, "n": 1,
        "N": 2, "a b": "x", "a_b": "y", "_id": "i", "()": 3,
    }  # fmt: skip
    pipeline = proposed(project, [row, row | {"_id": "j", "a b": "z"}] * 2)
    columns = pipeline.source.columns
    assert {name: column.path(name)[0] for name, column in columns.items()} == {
        "time_utc": "Time (UTC)", "amount_net": "Amount, net (€)", "sepal_length": "Sepal.Length",
        "n": "n", "n_": "N", "a_b_": "a b", "a_b": "a_b", "id": "_id", "column": "()",
    }  # fmt: skip
    assert pipeline.source.event_time.column == "time_utc"
    assert pipeline.source.unique is not None
    assert pipeline.source.unique.by == "id"
    assert "    sepal_length: {field: [Sepal.Length], type: double not null}" in text_of(project)
    assert "accepts all of them" in text_of(project)
    asked = new(land(project, [row]), "--force", "--event-time", "Time (UTC)")
    assert asked.exit_code == 0


def test_days_that_can_be_read_in_two_ways_are_told(project: Path) -> None:
    proposed(project, [{"made": "3/1/2026"}, {"made": "4/1/2026"}])
    assert "  # Or d/M/yyyy? The sample's days can be read in both ways.\n" in text_of(project)
    proposed(project, [{"made": "3/1/2026"}, {"made": "4/13/2026"}], "--force")
    assert "Or d/M/yyyy" not in text_of(project)


def test_parts_of_a_time_are_no_keys_and_no_sums(project: Path) -> None:
    rows = [
        {"at": f"2026-03-0{n % 3 + 1}T09:00:00Z", "day": n % 3 + 1, "month": 3, "minute": n % 2,
         "pick_up_hour": n % 2, "store_code": n % 2}
        for n in range(12)
    ]  # fmt: skip
    (table,) = proposed(project, rows).tables.values()
    assert table.group_by == ("store_code",)
    assert table.measures == {"events": "count(*)"}


def test_ids_codes_and_prices_are_not_summed_in_german_either(project: Path) -> None:
    named = ("phone", "postcode", "order_nr", "orderNumber", "Bestellnummer", "PLZ", "barcode")
    levels = ("Preis", "unit-price", "Einzelpreis", "Lufttemperatur", "Steuersatz")
    summed = ("Betrag", "Umsatz", "amount", "Menge")
    for names, measures in ((named, ()), (levels, ("avg", "min", "max")), (summed, ("sum",))):
        for name in names:
            row = {"at": "2026-03-01T09:00:00Z", name: 4711.5 if names != named else 4711}
            (table,) = proposed(project, [row, row | {name: 7}], "--force").tables.values()
            expected = [f"{name}_{one}" for one in measures]
            assert list(table.measures) == ["events", *expected], name


def test_texts_that_stand_for_nothing_and_numbers_in_text_are_told(project: Path) -> None:
    rows = [
        {"at": f"2026-03-01T09:{n:02}:00Z", "amount": n / 2, "price": f"{n}.50", "code": f"{n}1"}
        for n in range(20)
    ]
    for place, nothing in ((3, "NA"), (5, "")):
        rows[place] |= {"amount": nothing, "price": nothing}
    pipeline = proposed(project, rows)
    columns = pipeline.source.columns
    assert types(pipeline) == {
        "at": "timestamp not null", "amount": "double", "price": "double", "code": "string not null"
    }  # fmt: skip
    assert (columns["amount"].nulls, columns["amount"].from_text) == (("", "NA"), False)
    assert (columns["price"].nulls, columns["price"].from_text) == (("", "NA"), True)
    assert "accepts all of them" in text_of(project)
    measures = pipeline.tables["per_minute"].measures
    assert measures == {
        "events": "count(*)", "amount_sum": "sum(amount)", "price_avg": "avg(price)",
        "price_min": "min(price)", "price_max": "max(price)",
    }  # fmt: skip


def test_the_zone_that_was_taken_for_granted_is_told(project: Path) -> None:
    ended = new(land(project, [{"at": "2026-03-01 09:00:00"}, {"at": "2026-03-01 10:00:00"}]))
    assert "at (UTC assumed for 100 %)" in ended.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "format_", "zone"),
    [
        ("made", "2026-03-01T09:00:00+01:00", "iso8601", None),
        ("made", "2026-03-01 09:00:00", "iso8601", "UTC"),
        ("made", "2026-03-01", "iso8601", "UTC"),
        ("made", "01/Mar/2026:09:00:00 +0100", "dd/MMM/yyyy:HH:mm:ss Z", None),
        ("made", "2026/03/01 09:00:00", "yyyy/MM/dd HH:mm:ss", "UTC"),
        ("made", "2026/03/01 09:00", "yyyy/MM/dd HH:mm", "UTC"),
        ("made", "2026/03/01", "yyyy/MM/dd", "UTC"),
        ("made", "1.3.2026 09:00", "d.M.yyyy HH:mm", "UTC"),
        ("made", "Mar 1 2026", "MMM d yyyy", "UTC"),
        ("made", "March 1, 2026 09:00", "MMMM d, yyyy HH:mm", "UTC"),
        ("made", "20260301T090000Z", "yyyyMMdd'T'HHmmssX", None),
        ("made", "Sun, 01 Mar 2026 09:00:00 GMT", "rfc_1123", None),
        ("made", "3/31/2026 9:05", "M/d/yyyy H:mm", "UTC"),
        ("made", "3/31/2026 9:05 PM", "M/d/yyyy h:mm a", "UTC"),
        ("made", "31/3/2026", "d/M/yyyy", "UTC"),
        ("made_at", 1_772_000_000, "epoch_seconds", None),
        ("made_at", 1_772_000_000.25, "epoch_seconds", None),
        ("eventTime", 1_772_000_000_000, "epoch_millis", None),
        ("ts", 1_772_000_000_000_000, "epoch_micros", None),
    ],
)
def test_the_event_time_s_format_is_found(
    project: Path, name: str, value: Any, format_: str, zone: str | None
) -> None:
    pipeline = proposed(project, [{name: value, "phone": 1_772_000_000}])
    found = pipeline.source.event_time
    assert (found.column, found.format, found.zone) == (name, format_, zone)
    assert types(pipeline)[name] == "timestamp not null"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "best"),
    [
        (("updated_at", "ordered_at"), "ordered_at"),
        (("ordered_at", "event_time"), "event_time"),
        (("note", "ordered_at"), "ordered_at"),
        (("ordered_at", "paid_at"), "ordered_at"),
    ],
)
def test_of_several_times_the_event_s_own_is_chosen(
    project: Path, names: tuple[str, ...], best: str
) -> None:
    rows = [dict.fromkeys(names, "2026-03-01T09:00:00Z")]
    assert proposed(project, rows).source.event_time.column == best
    other = next(name for name in names if name != best)
    asked = proposed(project, rows, "--event-time", other, "--force")
    assert asked.source.event_time.column == other


def test_a_time_that_each_row_has_is_before_one_that_some_lack(project: Path) -> None:
    row = {"event_time": "2026-03-01T09:00:00Z", "b": "2026-03-01T09:00:00Z"}
    pipeline = proposed(project, [row, row | {"event_time": None}])
    assert pipeline.source.event_time.column == "b"


def test_a_time_that_a_few_rows_lack_is_as_good_as_one_that_all_have(project: Path) -> None:
    rows = [{"event_time": row["at"], **row} for row in many()]
    rows[0]["event_time"] = None
    assert proposed(project, rows).source.event_time.column == "event_time"


def test_keys_can_be_named_and_one_that_gold_has_already_gets_another_name(
    project: Path,
) -> None:
    rows = [row | {"status": 200 + number % 2} for number, row in enumerate(ROWS)]
    pipeline = proposed(project, rows)
    assert pipeline.tables["per_hour"].group_by == ("shop", "status_value")
    assert pipeline.source.derive == {"status_value": "status"}
    for option in ("--group-by", "--key"):
        asked = proposed(project, rows, option, "id, shop", "--force")
        assert asked.tables["per_hour"].group_by == ("id", "shop")


def many(number: int = 200) -> list[dict[str, Any]]:
    """Rows in the order of time, a minute apart, each with an id of its own."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=minute) for minute in range(number)]
    return [{"at": time.isoformat(), "id": f"i{n}", "x": 1} for n, time in enumerate(times)]


def test_a_few_times_without_a_zone_propose_none(project: Path) -> None:
    rows = many()
    for number in (3, 90):
        rows[number]["at"] = rows[number]["at"].removesuffix("+00:00")
    assert proposed(project, rows).source.event_time.zone is None
    text = text_of(project)
    assert "# A run accepts 198 of them and rejects 2 (2 wrong type).\n" in text
    assert "# In 2 of these the text tells no zone; `zone` says which.\n" in text


def test_where_many_times_tell_no_zone_it_is_asked_for_and_their_number_said(
    project: Path,
) -> None:
    rows = many(10)
    for row in rows[:4]:
        row["at"] = row["at"].removesuffix("+00:00")
    assert proposed(project, rows).source.event_time.zone == "UTC"
    assert "# The text tells no zone in 4 rows: is it UTC?" in text_of(project)


def test_a_few_rows_of_the_future_do_not_make_the_others_late(project: Path) -> None:
    rows = many()
    for number, days in ((3, 400), (90, 365), (91, 500)):
        time = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=days)
        rows[number]["at"] = time.isoformat()
    pipeline = proposed(project, rows)
    assert pipeline.watermark.delay == timedelta(minutes=10)
    assert list(pipeline.tables) == ["per_hour"]
    text = text_of(project)
    assert "# The sample's rows came in the order of time; but:\n" in text
    assert "# 3 rows are at least 365 days ahead of all others, and would make\n" in text


def test_one_late_row_of_many_does_not_decide_the_delay(project: Path) -> None:
    rows = many()
    rows[150]["at"] = "2026-01-01T00:00:00Z"
    rows[0]["at"] = "1999-01-01T00:00:00Z"
    pipeline = proposed(project, rows)
    assert pipeline.watermark.delay == timedelta(minutes=10)
    assert list(pipeline.tables) == ["per_hour"]
    assert "# 1 row came later, by up to 59 days: late rows are repaired." in text_of(project)


def test_rows_that_are_all_out_of_order_decide_it(project: Path) -> None:
    rows = many()
    assert proposed(project, rows[::-1]).watermark.delay == timedelta(days=1)


def test_an_id_that_a_few_rows_lack_or_share_is_one(project: Path) -> None:
    rows = many()
    for row in rows[:12]:
        row["id"] = None
    rows[50]["id"] = rows[60]["id"]
    source = proposed(project, rows).source
    assert source.unique is not None
    assert (source.unique.by, source.columns["id"].nullable) == ("id", True)
    text = text_of(project)
    assert "# Rows without one repeat nothing: 12 of the sample.\n" in text
    assert "# Named like an id, and hardly any two different rows share one:\n" in text
    assert "# In 1 row it is that of a different one.\n" in text


def test_an_id_that_many_rows_lack_or_share_is_none(project: Path) -> None:
    rows = many()
    for row in rows[:30]:
        row["id"] = None
    assert proposed(project, rows).source.unique is None
    why = '#   "id": 30 rows lack it, 0 rows have that of a different one\n'
    assert why in text_of(project)
    # Text without a letter is a value like any other: a run would reject all of these but one.
    for row in rows[:12]:
        row["id"] = ""
    for row in rows[12:30]:
        row["id"] = row["at"]
    assert proposed(project, rows, "--force").source.unique is None
    why = '#   "id": 0 rows lack it, 11 rows have that of a different one\n'
    assert why in text_of(project)


def test_names_that_yaml_or_sql_read_otherwise_are_quoted(project: Path) -> None:
    row = {"at": "2026-03-01T09:00:00Z", "no": "x", "case": 1.5, "größe": 2.5, "a-b": 1.5, "1": 1.5}
    pipeline = proposed(project, [row, row | {"no": "y"}] * 2)
    assert set(pipeline.source.columns) == set(row)
    measures = pipeline.tables["per_hour"].measures
    assert measures["case_sum"] == "sum(`case`)"
    assert set(measures) == {"events", "case_sum", "größe_sum", "a-b_sum", "1_sum"}


def test_one_row_is_enough(project: Path) -> None:
    pipeline = proposed(project, ROWS[:1])
    assert list(pipeline.tables) == ["per_hour"]
    assert "# No column has few values" in text_of(project)


def test_no_more_than_the_first_lines_are_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_LINES", 3)
    file = land(project, ROWS)
    assert "proposed from the first 3 lines." in new(file).output
    assert "from the first 3 lines of" in text_of(project)


@pytest.mark.slow
def test_an_array_of_objects_is_said_to_be_one_that_rows_can_be_made_of(project: Path) -> None:
    rows = [
        {"at": f"2026-03-01T09:0{n}:00Z", "items": [{"sku": "a", "n": n}], "tags": ["x"]}
        for n in range(9)
    ]
    assert types(proposed(project, rows))["items"] == "array<struct<sku:string,n:long>> not null"
    (said,) = [line for line in text_of(project).splitlines() if "explode" in line]
    assert said == "  # `explode: items` makes a row of each of its elements (docs/judging.md)."


def test_a_text_that_stands_for_null_beside_lists_is_looked_at(project: Path) -> None:
    """Lists are in no set of texts."""
    rows = [{"at": f"2026-03-01T09:0{n}:00Z", "x": [n] if n else ""} for n in range(9)]
    assert types(proposed(project, rows))["at"] == "timestamp not null"


def test_without_an_event_time_the_file_is_written_with_that_line_open(project: Path) -> None:
    rows = [
        {"moment": f"20260701-10{n:02}.00", "kind": "ab"[n % 2], "call_id": n} for n in range(40)
    ]
    ended = new(land(project, rows))
    assert ended.exit_code == 0, ended.output
    assert "orders: proposed from 40 lines, without an event time." in ended.stdout
    assert "Columns: moment, kind, call_id" in ended.stdout
    text = text_of(project)
    assert "# It has no event time yet: name one below." in text
    with pytest.raises(PipelineFileInvalid) as found:
        written(project)
    (problem,) = found.value.problems
    assert problem.text.startswith(
        "source.event_time.column: is open: name the column that holds the time of each row"
    )
    # That line is all that is missing.
    (project / "include" / "pipelines" / "orders.yaml").write_text(
        text.replace("{column: }", "{column: moment, format: yyyyMMdd-HHmm.ss, zone: UTC}").replace(
            "moment: string not null", "moment: timestamp not null"
        )
    )
    pipeline = written(project)
    assert pipeline.tables["per_hour"].group_by == ("kind",)
    assert pipeline.source.unique is not None
    assert pipeline.source.unique.by == "call_id"


@pytest.mark.parametrize(
    ("ids", "repeated"),
    [([[1], [2], [1]], 1), ([1.5, 2.5, 3.5], 0), ([True, False, True], 1),
     ([{"a": 1}, {"a": 2}, {"a": 2}], 1)],
)  # fmt: skip
def test_an_id_that_is_asked_for_may_be_of_any_type(
    project: Path, ids: list[Any], repeated: int
) -> None:
    rows = [{"at": f"2026-07-01T10:00:0{n}Z", "ref": one} for n, one in enumerate(ids)]
    ended = new(land(project, rows), "--unique-by", "ref")
    assert ended.exit_code == 0, ended.output
    text = text_of(project)
    assert "Rows without one repeat nothing" not in text
    told = f"0 rows lack it, {repeated} row{'s' * (repeated != 1)} have that of a different one"
    assert (told in text) == bool(repeated)


@pytest.mark.parametrize("end", ["\u2028", "\x85"])
def test_the_name_of_a_field_ends_no_comment_of_the_file(project: Path, end: str) -> None:
    name = f"bbbbbbbbbb{end}  unknown_fields: ignore #"
    ended = new(land(project, [{"a": number, name: None} for number in range(3)]))
    assert ended.exit_code == 0, ended.output
    content = parse_document(text_of(project), Document("orders.yaml")).content
    assert isinstance(content, dict)
    assert set(content["source"]) == {"files", "columns", "event_time"}


def test_the_id_and_the_tables_name_may_be_asked_for(project: Path) -> None:
    at = "2026-07-01T10:00:00Z"
    rows = [{"at": at, "ref": f"r{n % 30}", "call_id": n} for n in range(40)]
    ended = new(land(project, rows), "--unique-by", "ref", "--table", "calls")
    assert ended.exit_code == 0, ended.output
    pipeline = written(project)
    assert pipeline.source.unique is not None
    assert (pipeline.source.unique.by, list(pipeline.tables)) == ("ref", ["calls"])
    assert "As it was asked for; in the sample 0 rows lack it, 10 rows have" in (text_of(project))
    for arguments in (("--unique-by", "reff"), ("--table", "a/b")):
        refused = new(land(project, rows), *arguments, "--force")
        assert refused.exit_code == 1
        assert "Nothing was written." in refused.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no line holds anything"),
        (b"\n \n", "no line holds anything"),
        (b"a,b\n1,2\n", "the first is `a,b`. A source is JSON lines"),
        (b"\xff\xfe", "has no line that is one JSON object"),
        (b'{"a": 1, "a": 2}\n', "has no line that is one JSON object"),
        (b'{"a": NaN}\n', "has no line that is one JSON object"),
        (b'{"a": 1}\nx\ny\n', "3 lines, of which 1 are one JSON object; the first other is `x`"),
        (b"{}\n", "No column looks like an event time"),
    ],
)
def test_a_sample_that_cannot_be_used_is_told_in_a_sentence(
    project: Path, content: bytes, said: str
) -> None:
    file = land(project, [])
    file.write_bytes(content)
    refuses(project, new(file), said)


def refuses(project: Path, ended: Result, said: str) -> None:
    assert ended.exit_code == 1
    assert ended.stderr.startswith("SampleUnusable: ")
    assert said in ended.stderr
    assert "Nothing was written." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (project / "include" / "pipelines").exists()


def test_a_broken_archive_is_told(project: Path) -> None:
    broken = land(project, ROWS, "landing/orders/2.json.gz")
    broken.write_bytes(broken.read_bytes()[:-12])
    refuses(project, new(broken), f"{broken} cannot be read beyond line ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "arguments", "said"),
    [
        ("warehouse/nowhere/1.json", (), "there is no folder "),
        ("warehouse/landing/orders/2.json", (), "there is no such file"),
        ("warehouse/landing/orders/*.csv", (), "there is no such file"),
        ("warehouse/gone.json", (), "there is no such file: /"),
        ("gone.json", (), "there is no such file: /"),
        ("warehouse/landing/orders", (), "is a folder. Name a file in it"),
        ("warehouse/loose.json", (), "must begin with the name of a folder"),
        ("warehouse/landing/orders/1.json", ("--event-time", "att"), "Did you mean `at`?"),
        ("warehouse/landing/orders/1.json", ("--event-time", "shop"), "cannot be the event time"),
        ("warehouse/landing/orders/1.json", ("--group-by", "shopp"), "Did you mean `shop`?"),
    ],
)
def test_a_place_or_column_that_is_not_there_is_told(
    project: Path, given: str, arguments: tuple[str, ...], said: str
) -> None:
    land(project, ROWS)
    land(project, ROWS, "loose.json")
    refuses(project, new(given, *arguments), said)


@pytest.mark.parametrize("name", ["Orders", "a b", "1", "ops", "orders__backfill", "../x"])
def test_a_name_that_no_pipeline_can_have_is_refused(project: Path, name: str) -> None:
    refuses(project, new(land(project, ROWS), name=name), f"`{name}` ")


def test_a_source_in_the_pipeline_s_own_folder_is_refused_and_not_written(project: Path) -> None:
    ended = new(land(project, ROWS, "orders/1.json"))
    assert ended.exit_code == 1
    assert "lies in `orders`, the platform's own" in ended.stderr
    assert not (project / "include" / "pipelines").exists()


@pytest.mark.slow
def test_the_access_log_is_described_as_its_own_file_does(project: Path) -> None:
    parts = REPOSITORY / "include" / "samples" / "access_log" / "part-*.json.gz"
    ended = new(parts, name="log")
    assert ended.exit_code == 0, ended.stderr
    proposed_one = written(project, "log")
    own = load_pipeline(REPOSITORY / "include" / "pipelines" / "access_log.yaml")
    assert list(proposed_one.source.columns) == list(own.source.columns)
    for name, column in own.source.columns.items():
        expected = {"int": "long"}.get(column.type, column.type)
        assert proposed_one.source.columns[name].type == expected
    assert proposed_one.source.event_time.column == "timestamp"
    assert proposed_one.source.unique is not None
    assert proposed_one.source.unique.by == "request_id"
    assert proposed_one.tables["per_day"].group_by == ("verb", "status_value")


def test_the_impressions_are_described_as_their_own_file_does(project: Path) -> None:
    ended = new(
        REPOSITORY / "include" / "samples" / "ad_impressions" / "**" / "trigger-*.json",
        name="ads",
    )
    assert ended.exit_code == 0, ended.stderr
    pipeline = written(project, "ads")
    assert types(pipeline) == {
        "timestamp": "timestamp not null", "spotId": "long not null",
        "impressionId": "string not null", "agent": "string not null",
    }  # fmt: skip
    assert pipeline.source.unique is not None
    assert pipeline.source.unique.by == "impressionId"
