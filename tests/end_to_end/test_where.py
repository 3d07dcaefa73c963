"""Rows of bronze that do not count for a table: they move its watermark, and are in none of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import WINDOW, changed, goes_on, is_right, migrated, rolled_back
from tests.kit.running import Place, clicks, query, run_warm, succeed
from tests.kit.windows import at
from tests.streaming.audits import accept_by_hand, audit, backfill_warm, event
from tidemark.cli.console import report_console
from tidemark.cli.trial.report import print_trial
from tidemark.gold.state import gold_state
from tidemark.ledger.report import read_ledger
from tidemark.storage.delta.place import TablePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

second = pytest.mark.second
# The optimizer knows that the second one holds for no row.
CONDITIONS = ("amount > 0", "amount is null")
MODES: dict[str, dict[str, Any]] = {
    "update": {"output_mode": "update"},
    "append": {"output_mode": "append"},
    "recomputed": {"output_mode": "append", "stream": "recompute"},
}


def tables(*conditions: str) -> dict[str, Any]:
    """A table of each mode for each condition, and one for which each row counts."""
    found = {
        f"{mode}_{number}": {**WINDOW, **of_mode, "where": where}
        for mode, of_mode in MODES.items()
        for number, where in enumerate(conditions or CONDITIONS)
    }
    return {"every": {**WINDOW, "output_mode": "append"}, **found}


def place_with(root: Path, of_tables: dict[str, Any], **derive: str) -> Place:
    content = clicks(tables=of_tables)
    content["source"]["columns"]["amount"] = "long not null"
    content["source"]["derive"] = derive
    return Place(root, content)


def closed_to(place: Place, table: str) -> int:
    return gold_state(DeltaTable(place.places.gold(table))).close_ms


def counted(place: Place, table: str) -> list[tuple[Any, ...]]:
    found = [
        (row["window_start"].minute, row["key"], row["events"], row["amount"], row["rows"])
        for row in place.gold(table).to_pylist()
    ]
    return sorted(found, key=str)


@pytest.mark.second
def test_a_batch_of_rows_that_do_not_count_closes_windows_in_each_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_with(tmp_path, tables())
    place.land("1.json", [event(10, 1, "a", 5), event(10, 2, "a", -1), event(10, 12, "b", 3)])
    succeed(spark, place, "first")
    before = closed_to(place, "every")
    # None of these counts for any table with a condition.
    place.land("2.json", [event(10, 40, "c", -3), event(10, 41, "c", 0)])
    succeed(spark, place, "second")
    reached = closed_to(place, "every")
    assert reached > before
    for table in place.pipeline.tables:
        assert closed_to(place, table) == reached, table
        if table.endswith("_0"):
            assert counted(place, table) == [(0, "a", 1, 5, 1), (10, "b", 1, 3, 1)], table
        elif table != "every":
            assert counted(place, table) == [], table
    assert audit(spark, place).outcome == "equal"
    # One read of the source: the ingest's line, and of each table's those that do not count.
    lines = place.table(place.places.ledger)
    (read,) = query("SELECT sum(read) FROM l WHERE kind = 'ingest'", l=lines)
    assert read == (5,)
    found = query(
        "SELECT \"table\", sum(assigned)::INT, sum(not_counted)::INT FROM l WHERE kind = 'stream' "
        "GROUP BY 1 ORDER BY 1",
        l=lines,
    )
    report = read_ledger(TablePlace(place.places.ledger), place.name, 20)
    assert report is not None
    told = {table: account for table, kind, _, account in report.totals if kind == "stream"}
    assert told["update_0"] == "2 assigned, 0 late; 3 rows do not count"
    assert told["every"] == "5 assigned, 0 late"
    expected = {"every": (5, None), "0": (2, 3), "1": (0, 5)}
    assert found == [
        (table, *expected[table.rpartition("_")[2]]) for table in sorted(place.pipeline.tables)
    ]


@second
def test_a_late_row_that_does_not_count_touches_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_with(tmp_path, tables(CONDITIONS[0]))
    place.land("1.json", [event(10, 1, "a", 5), event(10, 45, "b", 3)])
    succeed(spark, place, "first")
    before = {name: counted(place, name) for name in place.pipeline.tables}
    place.land("2.json", [event(10, 2, "a", -1)])
    result = succeed(spark, place, "late")
    assert result.tables["every"].late.rows == 1
    for name in place.pipeline.tables:
        if name != "every":
            assert result.tables[name].late.rows == 0, name
            assert counted(place, name) == before[name]
    # And one that counts is one.
    place.land("3.json", [event(10, 3, "a", 2)])
    result = succeed(spark, place, "late again")
    assert result.tables["update_0"].late.rows == 1
    assert (0, "a", 2, 7, 2) in counted(place, "append_0")
    assert audit(spark, place).outcome == "equal"


@second
def test_a_measure_is_evaluated_for_no_row_that_does_not_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    measures = {"share": "sum(100 div amount)"}
    of_tables = {
        name: {**WINDOW, **of_mode, "measures": measures, "where": "amount <> 0"}
        for name, of_mode in MODES.items()
    }
    place = place_with(tmp_path, of_tables)
    place.land("1.json", [event(10, 1, "a", 50), event(10, 2, "a", 0)])
    succeed(spark, place, "first")
    place.land("2.json", [event(10, 45, "b", 0), event(10, 50, "b", 10)])
    succeed(spark, place, "second")
    place.land("3.json", [event(10, 3, "a", 25), event(10, 4, "a", 0)])
    succeed(spark, place, "late")
    for name in of_tables:
        (row,) = (row for row in place.gold(name).to_pylist() if row["window_start"].minute == 0)
        assert (row["share"], row["rows"]) == (6, 2), name
    assert audit(spark, place).outcome == "equal"


@second
def test_a_value_that_is_more_than_any_number_counts_wherever_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Statistics of files do not tell of NaN, and what is asked of them passes its files over."""
    place = place_with(
        tmp_path,
        {name: {**WINDOW, **of_mode, "where": "ratio > 5"} for name, of_mode in MODES.items()},
        ratio="cast(key as double)",
    )
    place.land("1.json", [event(10, 1, "NaN"), event(10, 2, "1"), event(10, 3, None)])
    succeed(spark, place, "first")
    place.land("2.json", [event(10, 50, "1.5"), event(10, 51, "1")])
    succeed(spark, place, "second")
    place.land("3.json", [event(10, 4, "NaN"), event(10, 5, "2")])
    succeed(spark, place, "late")
    for name in place.pipeline.tables:
        assert counted(place, name) == [(0, "NaN", 2, 2, 2)], name
    DeltaTable(place.places.gold("append")).delete()
    accept_by_hand(place)
    result = backfill_warm(spark, place, at(10, 0), at(10, 30), table="append")
    assert result.error is None, result.error
    assert counted(place, "append") == [(0, "NaN", 2, 2, 2)]
    assert audit(spark, place).outcome == "equal"


@second
@pytest.mark.parametrize("mode", ["update", "append"])
def test_another_condition_is_refused_and_a_migration_takes_it(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    place = Place(tmp_path / "root", clicks(tables={"per_10m": {**WINDOW, "output_mode": mode}}))
    place.land("1.json", [event(10, m, key, m) for m in (0, 11, 22, 33, 51) for key in ("a", None)])
    succeed(spark, place, "run-1")
    place.land("2.json", [event(11, 3, "a", 5)])
    succeed(spark, place, "run-2")
    # Of a column that bronze does not have yet, too: it is null there in each row of before.
    place = changed(place, where="amount > 11 and not coalesce(odd, false)")
    place.content["source"]["derive"] = {"odd": "amount % 2 = 1"}
    error = run_warm(spark, place, "refused").error
    assert error is not None
    assert error.type == "PipelineChanged"
    assert "where: none → amount > 11 and not coalesce(odd, false)" in error.message
    migrated(spark, place)
    assert {row["amount"] > 11 for row in place.gold().to_pylist()} == {True}
    fields = json.loads(DeltaTable(place.places.gold("per_10m")).schema().to_json())["fields"]
    (comment,) = (one["metadata"]["comment"] for one in fields if one["name"] == "rows")
    assert comment == "where amount > 11 and not coalesce(odd, false)"
    is_right(spark, place)
    goes_on(spark, place)
    again = changed(place, where="amount > 30")
    migrated(spark, again, "again")
    fields = json.loads(DeltaTable(place.places.gold("per_10m")).schema().to_json())["fields"]
    assert [one["metadata"]["comment"] for one in fields if one["name"] == "rows"] == [
        "where amount > 30"
    ]
    is_right(spark, again)
    rolled_back(place)
    is_right(spark, place)


@second
def test_where_a_contract_is_gone_gold_tells_which_rows_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, clicks(tables={"per_10m": {**WINDOW, "where": "amount > 0"}}))
    place.land("1.json", [event(10, 1, "a", 5), event(10, 2, "a", -1)])
    succeed(spark, place, "first")
    Path(place.places.contract("per_10m", 1)).unlink()
    error = run_warm(spark, changed(place), "refused").error
    assert error is not None
    assert "where: amount > 0 → none: needs a new generation" in error.message
    succeed(spark, place, "second")
    Path(place.places.contract("per_10m", 1)).unlink()
    assert run_warm(spark, changed(place, where="amount > 1"), "refused too").error is not None


@second
def test_a_table_for_which_no_row_has_counted_yet_goes_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = place_with(tmp_path, tables(CONDITIONS[0]))
    for number in range(2):
        place.land(f"{number}.json", [event(10 + number, 1, "a", -1)])
        succeed(spark, place, f"run-{number}")
    print_trial(place.pipeline, place.places, report_console())
    assert "update_0, where amount > 0: 0 rows" in capsys.readouterr().out
    place.land("late.json", [event(10, 2, "a", 4), event(11, 3, "a", 9)])
    succeed(spark, place, "late")
    succeed(spark, place, "nothing new")
    assert audit(spark, place).outcome == "equal"
    assert counted(place, "update_0") == [(0, "a", 1, 4, 1), (0, "a", 1, 9, 1)]


@second
def test_what_cannot_be_told_before_spark_knows_the_type_is_refused_before_a_row_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_with(tmp_path, {"per_10m": {**WINDOW, "where": "odd"}}, odd="pmod(amount, 2)")
    place.land("1.json", [event(10, 1)])
    error = run_warm(spark, place, "first").error
    assert error is not None
    assert error.type == "PipelineInvalid"
    assert "`where: odd` cannot be asked of bronze: is no condition" in error.message
    assert not Path(place.places.bronze).exists()
