"""Making Delta tables, and checking those that exist against what the pipeline wants."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema

from tidemark.errors import TableMismatch
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.place import TablePlace

INTERVAL = "delta.checkpointInterval"
DECIMAL = "decimal(10,2)"
STRUCT = {
    "type": "struct",
    "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}],
}


def columns(**types: object) -> str:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {"comment": f"the {name}"}}
        for name, kind in types.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.fixture
def place(tmp_path: Path) -> TablePlace:
    return TablePlace(str(tmp_path / "deep" / "er" / "table"))


@pytest.fixture
def spec() -> TableSpec:
    return TableSpec(
        columns(day="date", key="string", price=DECIMAL, place=STRUCT, at="timestamp"),
        partition_by=("day",),
        description="What it holds",
        properties={"delta.enableChangeDataFeed": "true"},
        transactions={"generation": 3},
    )


def test_a_table_that_is_not_there_is_made_as_specified(place: TablePlace, spec: TableSpec) -> None:
    table = ensure_table(place, spec)
    assert table.version() == 0
    assert json.loads(table.schema().to_json())["fields"] == json.loads(spec.schema_json)["fields"]
    metadata = table.metadata()
    assert metadata.partition_columns == ["day"]
    assert metadata.description == "What it holds"
    assert table.transaction_version("generation") == 3
    assert metadata.configuration == {
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "false",
        "delta.checkpointPolicy": "classic",
        "delta.enableExpiredLogCleanup": "false",
        "delta.checkpointInterval": "10",
    }


@pytest.mark.parametrize(("chosen", "then"), [(None, "10"), ("50", "50")])
def test_a_table_of_an_earlier_version_gets_a_log_checkpoint_every_ten_commits(
    place: TablePlace, spec: TableSpec, chosen: str | None, then: str
) -> None:
    schema = Schema.from_json(spec.schema_json)
    of_then = {} if chosen is None else {INTERVAL: chosen}
    DeltaTable.create(place.uri, schema, partition_by=["day"], configuration=of_then)
    versions = [ensure_table(place, spec).version() for _ in range(2)]
    assert DeltaTable(place.uri).metadata().configuration[INTERVAL] == then
    assert versions == [0 if chosen else 1] * 2


def test_a_second_call_changes_nothing(place: TablePlace, spec: TableSpec) -> None:
    ensure_table(place, spec)
    assert ensure_table(place, spec).version() == 0


def test_no_table_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert TablePlace(str(tmp_path / "missing")).open() is None
    assert TablePlace(str(tmp_path / "empty")).open() is None


def test_a_mismatch_names_each_column_with_both_types(place: TablePlace, spec: TableSpec) -> None:
    ensure_table(place, spec)
    wanted = columns(day="date", key="long", price="decimal(12,2)", place=STRUCT, new="string")
    with pytest.raises(TableMismatch) as error:
        ensure_table(place, replace(spec, schema_json=wanted))
    lines = str(error.value).splitlines()
    assert place.uri in lines[0]
    assert lines[1:5] == [
        "  key: the table has string, the pipeline long",
        "  price: the table has decimal(10,2), the pipeline decimal(12,2)",
        "  new: string, not in the table",
        "  at: timestamp, not in the pipeline",
    ]
    assert DeltaTable(place.uri).version() == 0


@pytest.mark.parametrize(
    "wanted",
    [
        columns(day="date", key="string", price=DECIMAL, place=STRUCT, at="timestamp", new="long"),
        columns(day="date", key="string", price=DECIMAL, place=STRUCT),
    ],
)
def test_a_column_more_or_less_is_a_mismatch_where_columns_may_not_be_added(
    place: TablePlace, spec: TableSpec, wanted: str
) -> None:
    ensure_table(place, spec)
    with pytest.raises(TableMismatch, match=r"  (new|at): "):
        ensure_table(place, replace(spec, schema_json=wanted))


def test_a_missing_column_is_added_with_its_comment_where_columns_may_be_added(
    place: TablePlace,
    spec: TableSpec,
) -> None:
    ensure_table(place, spec)
    wanted = columns(
        day="date",
        key="string",
        price=DECIMAL,
        place=STRUCT,
        at="timestamp",
        more={"type": "array", "elementType": "string", "containsNull": True},
        new="long",
    )
    grown = replace(spec, schema_json=wanted, may_add=None)
    table = ensure_table(place, grown)
    added = json.loads(table.schema().to_json())["fields"][-2:]
    assert added == json.loads(wanted)["fields"][-2:]
    assert ensure_table(place, grown).version() == table.version() == 1


def test_a_column_that_the_pipeline_no_longer_has_stays_where_columns_may_be_added(
    place: TablePlace,
    spec: TableSpec,
) -> None:
    ensure_table(place, spec)
    fewer = replace(spec, schema_json=columns(day="date", key="string"), may_add=None)
    table = ensure_table(place, fewer)
    assert [field.name for field in table.schema().fields] == ["day", "key", "price", "place", "at"]
    assert table.version() == 0


def test_a_changed_type_is_a_mismatch_also_where_columns_may_be_added(
    place: TablePlace, spec: TableSpec
) -> None:
    ensure_table(place, spec)
    wanted = columns(
        day="date", key="long", price=DECIMAL, place=STRUCT, at="timestamp", new="long"
    )
    with pytest.raises(TableMismatch, match="key: the table has string, the pipeline long"):
        ensure_table(place, replace(spec, schema_json=wanted, may_add=None))
    assert DeltaTable(place.uri).version() == 0


def test_a_column_whose_name_differs_by_its_case_alone_is_a_mismatch_where_columns_may_be_added(
    place: TablePlace, spec: TableSpec
) -> None:
    ensure_table(place, spec)
    wanted = columns(day="date", key="string", price=DECIMAL, place=STRUCT, At="timestamp")
    with pytest.raises(TableMismatch) as told:
        ensure_table(place, replace(spec, schema_json=wanted, may_add=None))
    (said,) = str(told.value).splitlines()[1:-1]
    assert said == "  At: the table has at, which differs by its case alone"
    assert DeltaTable(place.uri).version() == 0
