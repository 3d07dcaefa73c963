"""`tidemark new --from delta:TABLE`: types from the table's schema, rows that a run would read."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from tidemark.cli.main import app
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import DeltaSource, Pipeline

START = datetime(2026, 7, 1, 10, tzinfo=UTC)
US = pa.timestamp("us")
# By column: its type in the table, a value of each row, and the column's type in the file.
COLUMNS: dict[str, tuple[Any, Any, str | None]] = {
    "event_id": (pa.string(), lambda n: f"e{n}", "string"),
    "created_text": (pa.string(), lambda n: f"2026-07-02T10:00:{n % 60:02}Z", "string"),
    "happened": (
        pa.timestamp("us", "UTC"),
        lambda n: START + timedelta(minutes=n),
        "timestamp not null",
    ),
    "local": (US, lambda n: datetime(2026, 7, 1), "string"),
    "code": (pa.int32(), lambda n: n % 3, "int"),
    "large": (pa.int64(), lambda n: n, "long"),
    "short_": (pa.int16(), lambda n: n % 100, "short"),
    "price": (pa.decimal128(12, 2), lambda n: Decimal(n) / 4, "decimal(12,2)"),
    "small": (pa.float32(), lambda n: n / 3, "float"),
    "ratio": (pa.float64(), lambda n: float("nan") if n == 7 else n / 3, "double"),
    "day": (pa.date32(), lambda n: date(2026, 7, 1), "date"),
    "ok": (pa.bool_(), lambda n: n % 2 == 0, "boolean"),
    "bytes": (pa.binary(), lambda n: b"\0", "binary"),
    "place": (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        lambda n: {"a": n, "b": ["x"]},
        "struct<a:long,b:array<string>>",
    ),
    "tags": (pa.map_(pa.string(), pa.int64()), lambda n: [("k", n)], "map<string,long>"),
    "numbered": (pa.map_(pa.int64(), pa.int64()), lambda n: [(n, n)], None),
    "locals": (pa.list_(US), lambda n: [datetime(2026, 7, 1)], None),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ROOT", "PIPELINES", "SETTINGS"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    (tmp_path / "include").mkdir()
    settings = "root: ../warehouse\npipelines: pipelines\n"
    (tmp_path / "include" / "settings.yaml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(numbers: range, *names: str) -> pa.Table:
    chosen = {name: one for name, one in COLUMNS.items() if not names or name in names}
    return pa.table(
        {name: pa.array([of(n) for n in numbers], kind) for name, (kind, of, _) in chosen.items()}
    )


def append(table: Path, numbers: range, *names: str) -> None:
    write_deltalake(str(table), rows(numbers, *names), mode="append")


def new(table: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["new", "orders", "--from", f"delta:{table}", *arguments])


def file_of(project: Path) -> Path:
    return project / "include" / "pipelines" / "orders.yaml"


def proposed(project: Path, table: str, *arguments: str) -> Pipeline:
    ended = new(table, *arguments)
    assert ended.exit_code == 0, ended.output
    return load_pipeline(file_of(project))


def delta_of(pipeline: Pipeline) -> dict[str, Any]:
    assert isinstance(pipeline.source, DeltaSource)
    return pipeline.source.delta.model_dump(exclude_unset=True)


def test_columns_have_the_types_of_the_table_s_schema(project: Path) -> None:
    append(project / "warehouse" / "lake" / "events", range(100))
    said = new("warehouse/lake/events").stdout
    assert "proposed from 100 rows. A run accepts 99 of them and rejects 1 (1 malformed)." in said
    pipeline = load_pipeline(file_of(project))
    assert delta_of(pipeline) == {"table": "lake/events"}
    columns = pipeline.source.columns.items()
    assert {n: c.type if c.nullable else f"{c.type} not null" for n, c in columns} == {
        name: kind for name, (_, _, kind) in COLUMNS.items() if kind
    }
    # Not the text, though it comes first and is a time too.
    assert pipeline.source.event_time.column == "happened"
    assert pipeline.source.unique is not None
    assert pipeline.source.unique.by == "event_id"
    text = file_of(project).read_text()
    assert '"numbered": a map read from JSON has keys of type string, not long' in text
    assert '"locals": has timestamps without a zone inside' in text
    assert "local: string   # timestamps without a zone, as text" in text
    assert "from 100 rows of delta:warehouse/lake/events." in text
    (table,) = pipeline.tables.values()
    assert {"avg(price)", "sum(small)", "sum(large)"} <= set(table.measures.values())


def test_a_column_that_is_never_null_in_the_schema_is_not_null_in_the_file(project: Path) -> None:
    given = rows(range(20), "event_id", "happened", "large")
    schema = pa.schema([one.with_nullable(one.name != "large") for one in given.schema])
    write_deltalake(str(project / "warehouse" / "events"), given.cast(schema))
    columns = proposed(project, "warehouse/events").source.columns
    assert {name: one.nullable for name, one in columns.items()} == {
        "event_id": True, "happened": False, "large": False,
    }  # fmt: skip


def test_timestamps_without_a_zone_can_be_the_event_time(project: Path) -> None:
    append(project / "events", range(20), "event_id", "local")
    pipeline = proposed(project, "events")
    assert delta_of(pipeline) == {"table": f"file://{project}/events"}
    time = pipeline.source.event_time
    assert (time.column, time.zone) == ("local", "UTC")
    assert "The text tells no zone: is it UTC?" in file_of(project).read_text()


def test_versions_that_changed_rows_are_passed_over_and_told(project: Path) -> None:
    table = project / "warehouse" / "events"
    append(table, range(20), "event_id", "happened")
    DeltaTable(str(table)).delete("event_id = 'e3'")
    append(table, range(20, 30), "event_id", "happened")
    pipeline = proposed(project, "warehouse/events")
    assert delta_of(pipeline) == {"table": "events", "changes": "skip"}
    text = " ".join(file_of(project).read_text().replace("#", "").split())
    assert "Versions that changed rows which were there are passed over" in text
    assert "a reject tells so: 1." in text
    assert "from 30 rows of" in text


def test_a_table_whose_first_files_were_vacuumed_begins_behind_them(project: Path) -> None:
    table = project / "warehouse" / "events"
    for begin in (0, 10):
        append(table, range(begin, begin + 10), "event_id", "happened")
    DeltaTable(str(table)).optimize.compact()
    DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    ended = new("warehouse/events")
    assert ended.exit_code == 1
    assert "has no row that a run would read from version 2 on" in ended.stderr
    append(table, range(20, 25), "event_id", "happened")
    assert delta_of(proposed(project, "warehouse/events")) == {"table": "events", "starting": 2}
    assert "from 5 rows of" in file_of(project).read_text()


def test_a_path_counts_from_the_root_as_in_the_file_or_from_this_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(project / "warehouse" / "shop" / "sales", range(20), "event_id", "happened")
    for named in ("shop/sales", "shop/../shop/sales/", "warehouse/shop/sales"):
        assert delta_of(proposed(project, named, "--force")) == {"table": "shop/sales"}
    # A folder whose path no URI of a source can have is none that the table lies in.
    (project / "odd%20name").mkdir()
    monkeypatch.chdir(project / "odd%20name")
    assert delta_of(proposed(project, "shop/sales", "--force")) == {"table": "shop/sales"}


def test_a_path_that_names_two_tables_is_refused_and_both_are_told(project: Path) -> None:
    for table in (project / "shop" / "sales", project / "warehouse" / "shop" / "sales"):
        append(table, range(20), "event_id", "happened")
    ended = new("shop/sales")
    assert ended.exit_code == 1
    both = f"{project}/warehouse/shop/sales and {project}/shop/sales"
    assert f"shop/sales names two tables, {both}: name one by its whole path." in ended.stderr
    assert delta_of(proposed(project, str(project / "warehouse" / "shop" / "sales")))


def refuse(table: Path) -> None:
    """Let the table's log say that its columns are mapped by name."""
    log = table / "_delta_log" / f"{0:020}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for one in entries:
        if "metaData" in one:
            one["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    log.write_text("".join(f"{json.dumps(one)}\n" for one in entries))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("delta:warehouse/evnts", "There is no Delta table {root}/evnts: a folder with a "
         "`_delta_log`. Did you mean {root}/events?"),
        ("delta:evnts", "There is no Delta table {root}/evnts: a folder with a "
         "`_delta_log`. Did you mean {root}/events?"),
        ("delta:", "A table is named delta:TABLE, by its path or its URI."),
        ("delta:warehouse/empty", "The table {root}/empty has no row that a run would read"),
        ("delta:warehouse/mapped", "The table {root}/mapped has columns mapped by name, which are "
         "not read."),
        ("delta:odd%20name", "It lies outside of the root, and has '%' in its path"),
        ("warehouse/events", "is a Delta table: name it as delta:warehouse/events."),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_looked_at_is_one_clear_error_and_nothing_is_written(
    project: Path, named: str, said: str
) -> None:
    root = project / "warehouse"
    for name in ("events", "mapped"):
        append(root / name, range(20), "event_id", "happened")
    refuse(root / "mapped")
    DeltaTable.create(str(root / "empty"), rows(range(1)).schema)
    ended = CliRunner().invoke(app, ["new", "orders", "--from", named])
    assert ended.exit_code == 1, ended.output
    assert said.format(root=root) in ended.stderr
    assert ended.stderr.rstrip().endswith("Nothing was written.")
    assert not file_of(project).parent.exists()
