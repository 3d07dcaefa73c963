"""What the file of a pipeline may say of lookups, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.running import clicks
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid

AIRLINES: dict[str, Any] = {
    "table": "dims/airlines",
    "on": {"key": "carrier"},
    "columns": {"name": "string", "rank": "int", "since": "date"},
}
TABLE: dict[str, Any] = {
    "window": {"length": "10 minutes"},
    "group_by": ["airlines.name"],
    "measures": {"best": "min(airlines.rank)"},
}


def content(lookup: dict[str, Any] | None = None, **table: Any) -> dict[str, Any]:
    return clicks(lookup={"airlines": AIRLINES | (lookup or {})}, tables={"t": TABLE | table})


def fault(of: dict[str, Any]) -> str:
    with pytest.raises(PipelineFileInvalid) as caught:
        pipeline_from_mapping("clicks", of)
    return str(caught.value)


def test_a_table_that_names_a_lookup_is_recomputed_and_its_key_is_called_as_in_gold() -> None:
    pipeline = pipeline_from_mapping("clicks", content(where="airlines.rank < 3 and amount > 0"))
    table = pipeline.tables["t"]
    assert table.recomputes_open
    assert table.keys == ("airlines_name",)
    of = pipeline.lookups_of("t")
    assert list(of["airlines"].columns) == ["name", "rank"]
    assert of["airlines"].on == {"key": "carrier"}


def test_what_the_file_does_not_say_is_in_no_content_of_it() -> None:
    pipeline = pipeline_from_mapping("clicks", content())
    said = pipeline.content()
    assert "stream" not in said["tables"]["t"]
    assert said["tables"]["t"]["group_by"] == ["airlines.name"]
    assert pipeline_from_mapping("clicks", said) == pipeline
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_a_pipeline_without_lookups_has_none() -> None:
    pipeline = pipeline_from_mapping("clicks", clicks())
    assert not pipeline.lookups_of("per_10m")
    assert not pipeline.tables["per_10m"].recomputes


def test_checks_name_the_key_as_gold_does() -> None:
    pipeline_from_mapping("clicks", content(checks=[{"fail": "airlines_name <> 'x'"}]))
    assert "`airlines` is not a column" in fault(content(checks=[{"fail": "airlines.rank > 1"}]))


def test_a_key_may_have_been_called_otherwise() -> None:
    pipeline_from_mapping("clicks", content(renamed_from={"airlines_name": "carrier_name"}))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            {"window": {"session": "5 minutes"}, "output_mode": "append"},
            "sessions, joins and folds",
        ),
        ({"output_mode": "complete", "accept_unbounded_state": True}, "choose update or append"),
        ({"stream": "engine"}, "leave `stream` out"),
        ({"group_by": ["airlines"]}, "names the lookup `airlines` as a whole"),
        ({"measures": {"x": "max(airlines)"}}, "names the lookup `airlines` as a whole"),
        ({"measures": {"x": "max(airlines.nam)"}}, "Did you mean `name`?"),
        ({"group_by": ["airlines.nam"]}, "Did you mean `airlines.name`?"),
        ({"where": "airlines.rank = 'x'"}, "compares a number with the text"),
        ({"where": "upper(airlines.name) = 'X'"}, "cannot be translated to DuckDB"),
        ({"measures": {"airlines_name": "count(*)"}}, "the same name as the key `airlines_name`"),
        ({"group_by": ["key"], "measures": {"n": "count(*)"}}, "is not used"),
    ],
)
def test_what_a_table_cannot_have_is_told(said: dict[str, Any], told: str) -> None:
    assert told in fault(content(**said))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"file": "dims/a.csv"}, "exactly one of table, file"),
        ({"table": None, "file": "dims/a.xlsx"}, "in .csv or .parquet or .json"),
        ({"table": None, "file": "dims/*.csv"}, "is one file"),
        ({"table": "../dims"}, "stay below the root"),
        ({"table": "clicks/t/gold"}, "the platform's own folder"),
        ({"on": "carrier"}, "`carrier` is no column of the source"),
        ({"on": {"ratio": "x"}}, "which is no key"),
        ({"on": {"amount": "carrier"}, "columns": AIRLINES["columns"] | {"carrier": "string"}},
         "have to be of one type"),
        ({"columns": {"name": "array<int>"}}, "columns of one value"),
        ({"columns": {"name": "string not null"}}, "null where keys find no row"),
        ({"columns": {"name": "string", "Name": "int"}}, "one to Spark"),
        ({"as_of": "name"}, "no date or timestamp"),
        ({"as_of": ["since", "since"]}, "names a column twice"),
        ({"on_missing": "drop"}, "is not allowed"),
    ],
)  # fmt: skip
def test_what_a_lookup_cannot_be_is_told(said: dict[str, Any], told: str) -> None:
    of = content({name: value for name, value in said.items() if value is not None})
    of["source"]["columns"]["ratio"] = "double"
    if said.get("table", "") is None:
        del of["lookup"]["airlines"]["table"]
    assert told in fault(of)


def test_bronze_depends_on_no_lookup() -> None:
    of = content()
    of["source"]["derive"] = {"named": "airlines.name"}
    assert "`airlines` is not a column" in fault(of)
    of["source"].pop("derive")
    of["source"]["rules"] = [{"name": "low", "reject": "airlines.rank < 1"}]
    assert "`airlines` is not a column" in fault(of)


def test_names_that_nobody_could_tell_apart_are_refused() -> None:
    of = content(group_by=["airlines.name", "airlines_name"])
    of["source"]["columns"]["airlines_name"] = "string"
    assert "and that name is taken" in fault(of)
    of = content()
    of["source"]["columns"]["airlines"] = "string"
    assert "has the name of `airlines` of the source" in fault(of)
