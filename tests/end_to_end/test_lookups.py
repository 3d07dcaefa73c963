"""Gold of tables that look others up is the batch query over bronze and the lookups as they are."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import migrated
from tests.end_to_end.looked_up import (
    CARRIERS,
    DAY,
    HOUR,
    LOOKUPS,
    TABLES,
    LookingUp,
    change,
    landings,
)
from tests.kit.killed import killed
from tests.kit.rewinding import rewound
from tests.kit.running import accept_changed_file, clicks, run_warm, succeed
from tests.streaming.audits import accept_by_hand, audit, backfill
from tidemark.gold.failing import failing_windows
from tidemark.gold.state import gold_state
from tidemark.ledger.ledger import check_balance
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.operators import looked_up_rows
from tidemark.operators.lookups import copies_of, newest_copy
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.runs.publish_held import publish_and_record
from tidemark.storage.result_file import write_result
from tidemark.streaming.ingest import judged_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = [
    (point, when)
    for point in ("lookup copied", "copies of lookups dropped")
    for when in ("before", "after")
]


def begun(root: Path, **changes: Any) -> LookingUp:
    place = LookingUp.at(root, **changes)
    place.airlines = [
        {"carrier": carrier, "name": "Ada", "region": "eu", "valid_from": DAY}
        for carrier in CARRIERS[:6]
    ]
    place.rates = dict.fromkeys(CARRIERS[::2], (2, "x"))
    place.write_airlines()
    place.write_rates()
    return place


def caused(place: LookingUp, table: str, run: str) -> list[dict[str, Any]]:
    rows = place.changes(table).to_pylist()
    return [row for row in rows if row["cause"] == "lookup" and row["run"] == run]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "few_rows"), [(1, looked_up_rows.FEW_ROWS), (2, 0)])
def test_gold_is_the_batch_join_after_each_run_whatever_changes(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    few_rows: int,
) -> None:
    """Also where copies are taken for large ones, of which only what is found is read."""
    monkeypatch.setattr(looked_up_rows, "FEW_ROWS", few_rows)
    random = Random(seed)
    place = begun(tmp_path)
    for number, rows in enumerate(landings(random, 7)):
        newest = max(datetime.fromisoformat(row["at"]) for row in rows)
        # A run without new rows, one with the same lookups, one that is held.
        if number != 3:
            place.land(f"{number}.json", rows)
        if number and number != 2:
            change(place, random, DAY, newest + HOUR)
        succeed(spark, place, f"run{number}", hold=number == 4)
        if number != 4:
            place.check()
    for table in TABLES:
        found = place.changes(table)
        assert {"lookup"} <= set(found.column("cause").to_pylist())
        assert table != "named" or 0 in found.column("rows").to_pylist()
    audited = audit(spark, place)
    assert all(not one.found.windows for one in audited.tables.values())


@pytest.fixture
def three_weeks(spark: SparkSession, tmp_path: Path) -> LookingUp:
    """Rows of two carriers in each hour, and of a third one in three hours."""
    place = begun(tmp_path)
    rows = [
        {"at": (DAY + number * HOUR).isoformat(), "key": key, "amount": 3}
        for number in range(21 * 24)
        for key in ("c0", "c1")
    ]
    place.airlines[1]["name"] = "Bob"
    rows += [{"at": (DAY + at * HOUR).isoformat(), "key": "c2", "amount": 5} for at in (5, 9, 200)]
    place.airlines[2]["name"] = "Cyd"
    place.write_airlines()
    place.land("rows.json", rows)
    succeed(spark, place, "first")
    place.check()
    return place


@pytest.mark.second
def test_one_changed_key_touches_only_rows_that_used_it(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    assert isinstance(run_preflight(place.run("look")), NothingNew)
    place.airlines[2]["name"] = "Dan"
    place.write_airlines()
    assert isinstance(run_preflight(place.run("look")), SparkNeeded)
    succeed(spark, place, "second")
    place.check()
    touched = caused(place, "named", "second")
    assert sorted((row["airlines_name"], row["rows"]) for row in touched) == [
        *[("Cyd", 0)] * 3,
        *[("Dan", 1)] * 3,
    ]
    assert len(touched) < 0.01 * place.gold("named").num_rows
    # The others have none of its columns that changed.
    assert not caused(place, "rated", "second")
    assert not caused(place, "daily", "second")
    assert isinstance(run_preflight(place.run("look")), NothingNew)


@pytest.mark.second
def test_what_a_lookup_says_from_a_time_on_touches_no_row_before(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    place.airlines.append(
        {"carrier": "c2", "name": "Eve", "region": "us", "valid_from": DAY + 100 * HOUR}
    )
    place.write_airlines()
    succeed(spark, place, "second")
    place.check()
    found = caused(place, "named", "second")
    assert sorted(row["airlines_name"] for row in found) == ["Cyd", "Eve"]
    (gone,) = caused(place, "rated", "second")[-1:]
    assert gone["key"] == "c2"
    assert gone["rows"] == 0


@pytest.mark.second
def test_rows_of_many_lines_are_touched_as_those_of_few_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many lines tasks write the files, and the log does not tell their texts."""
    monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    place = begun(tmp_path)
    rows = [
        {"at": (DAY + number * HOUR).isoformat(), "key": f"c{number % 3}", "amount": 3}
        for number in range(48)
    ]
    place.land("rows.json", rows)
    succeed(spark, place, "first")
    place.check()
    place.airlines[2]["name"] = "Dan"
    place.airlines[0]["region"] = "us"
    place.rates["c1"] = (4, "y")
    place.write_airlines()
    place.write_rates()
    succeed(spark, place, "second")
    place.check()
    assert all(caused(place, table, "second") for table in TABLES)


def audited_equal(spark: SparkSession, place: LookingUp) -> None:
    found = audit(spark, place)
    assert found.outcome == "equal"
    assert all(one.found.gold_windows for one in found.tables.values())


@pytest.mark.second
def test_audits_and_backfills_read_the_copies_that_gold_notes(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    place.airlines[2]["name"], place.rates["c0"] = "Dan", (5, "y")
    place.write_airlines()
    place.write_rates()
    succeed(spark, place, "second")
    audited_equal(spark, place)
    place.airlines[1]["region"] = "us"
    place.write_airlines()
    succeed(spark, place, "third")
    place.check()
    audited_equal(spark, place)
    shown = {table: place.found(table) for table in TABLES}
    # What no run has read.
    place.airlines[2]["name"], place.rates["c1"] = "Eve", (7, "y")
    place.write_airlines()
    place.write_rates()
    audited_equal(spark, place)
    DeltaTable(place.places.gold("named")).delete("airlines_name = 'Dan'")
    accept_by_hand(place)
    backfill(spark, place, DAY, DAY + 14 * 24 * HOUR, table="named")
    # What held ones have read, and one that was killed after these.
    succeed(spark, place, "held", hold=True)
    audited_equal(spark, place)
    place.airlines[2]["name"] = "Fay"
    place.write_airlines()
    held = succeed(spark, place, "held again", hold=True)
    audited_equal(spark, place)
    assert {table: place.found(table) for table in TABLES} == shown
    result = place.places.result("held again")
    write_result(result, held, {})
    assert publish_and_record(place.pipeline, held, result, place.settings).error is None
    place.check()
    audited_equal(spark, place)
    shown = {table: place.found(table) for table in TABLES}
    place.airlines[2]["name"] = "Gil"
    place.write_airlines()
    with killed("before", "gold"):
        assert run_warm(spark, place, "killed").error is not None
    audited_equal(spark, place)
    assert {table: place.found(table) for table in TABLES} == shown
    succeed(spark, place, "fourth")
    place.check()
    audited_equal(spark, place)


@pytest.mark.second
@pytest.mark.parametrize(("point", "when"), KILLS)
def test_a_run_killed_while_it_copies_is_made_up_for(
    spark: SparkSession, three_weeks: LookingUp, point: str, when: str
) -> None:
    place = three_weeks
    place.airlines[2]["name"] = "Dan"
    place.write_airlines()
    with killed(when, point):  # type: ignore[arg-type]
        assert run_warm(spark, place, "killed").error is not None
    # It says something else again before the repeat.
    place.airlines[2]["name"], place.airlines[1]["name"] = "Bob", "Dan"
    place.write_airlines()
    succeed(spark, place, "repeat")
    place.check()


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "when"),
    [("recomputed windows", "after"), ("ledger", "after"), ("gold", "before"), ("gold", "after")],
)
def test_a_run_killed_with_another_copy_is_made_up_for(
    spark: SparkSession, three_weeks: LookingUp, point: str, when: str
) -> None:
    place = three_weeks
    place.land("more.json", [{"at": (DAY + HOUR).isoformat(), "key": "c3", "amount": 7}])
    place.airlines[2]["name"], place.airlines[1]["region"] = "Dan", "us"
    place.write_airlines()
    with killed(when, point):  # type: ignore[arg-type]
        assert run_warm(spark, place, "killed").error is not None
    place.airlines[2]["name"] = "Eve"
    place.write_airlines()
    succeed(spark, place, "repeat")
    place.check()
    assert "Dan" not in place.gold("named").column("airlines_name").to_pylist()


@pytest.mark.second
def test_copies_that_no_gold_names_are_dropped_and_lost_ones_made_anew(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    copy = place.warehouse.lookup("airlines")
    for number, name in enumerate(("Dan", "Eve", "Fay")):
        place.airlines[2]["name"] = name
        place.write_airlines()
        succeed(spark, place, f"run{number}")
    place.check()
    files = [*Path(copy.uri).glob("*.parquet")]
    last = max(one.number for one in copies_of(copy))
    assert [one.number for one in copies_of(copy)] == [last - back for back in range(4)]
    assert len(files) == 2
    # A source that is written anew with the same rows is the same copy.
    place.write_airlines()
    succeed(spark, place, "same")
    newest = newest_copy(copy)
    assert newest is not None
    assert newest.number == last
    for file in Path(copy.uri).rglob("*"):
        if file.is_file():
            file.unlink()
    for folder in (Path(copy.uri) / "_delta_log", Path(copy.uri)):
        folder.rmdir()
    place.airlines[2]["name"] = "Gil"
    place.airlines[0]["region"] = "us"
    place.write_airlines()
    succeed(spark, place, "lost")
    place.check()
    noted = gold_state(DeltaTable(place.places.gold("named")), ("lookup/airlines",)).inputs
    assert noted["lookup/airlines"] > last


@pytest.mark.second
def test_a_broken_lookup_ends_the_run_before_anything_is_written(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    place.airlines[2]["name"] = "Dan"
    place.write_airlines()
    place.land("more.json", [{"at": (DAY + HOUR).isoformat(), "key": "c0", "amount": 7}])
    before = {table: DeltaTable(place.places.gold(table)).version() for table in TABLES}
    bronze = DeltaTable(place.places.bronze).version()
    (place.root / "dims/rates.csv").write_text("key,factor,kind\nc0,2,x\nc1,2.5,y\n")
    found = run_warm(spark, place, "broken")
    assert found.error is not None
    assert "`2.5` in row 2, column `factor`" in found.error.message
    assert {table: DeltaTable(place.places.gold(table)).version() for table in TABLES} == before
    assert DeltaTable(place.places.bronze).version() == bronze
    assert len([*copies_of(place.warehouse.lookup("airlines"))]) == 1
    place.write_rates()
    succeed(spark, place, "mended")
    place.check()


@pytest.mark.long
def test_another_definition_begins_a_generation(spark: SparkSession, tmp_path: Path) -> None:
    place = begun(
        tmp_path, tables={"per_10m": TABLES["named"]}, lookup={"airlines": LOOKUPS["airlines"]}
    )
    lookups = {"airlines": {**LOOKUPS["airlines"], "on_missing": "leave_out"}}
    changed = replace(place, content={**place.content, "lookup": lookups})
    rows = [{"at": (DAY + HOUR).isoformat(), "key": key, "amount": 7} for key in ("c0", "c2", "c9")]
    place.land("rows.json", rows)
    succeed(spark, place, "first")
    refused = run_warm(spark, changed, "refused")
    assert refused.error is not None
    assert "lookup.airlines.on_missing" in refused.error.message
    assert None in place.gold().column("airlines_name").to_pylist()
    place.airlines[2]["name"] = "Dan"
    place.write_airlines()
    migrated(spark, changed)
    assert None not in place.gold().column("airlines_name").to_pylist()
    succeed(spark, changed, "after")
    audited = audit(spark, changed)
    assert all(not one.found.windows for one in audited.tables.values())


@pytest.mark.second
def test_rows_without_a_match_are_told_by_number(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    at = (DAY + timedelta(hours=3)).isoformat()
    place.land("more.json", [{"at": at, "key": key, "amount": 1} for key in (None, "zz", "c0")])
    succeed(spark, place, "second")
    lines = [
        row for row in place.table(place.places.ledger).to_pylist()
        if row["run"] == "second" and row["kind"] == "stream"
    ]  # fmt: skip
    assert {row["table"]: row["without_match"] for row in lines} == {
        "named": 2, "rated": 2, "daily": 2
    }  # fmt: skip
    place.check()


@pytest.mark.long
def test_a_pipeline_that_was_taken_back_is_computed_with_what_lookups_say_now(
    spark: SparkSession, three_weeks: LookingUp
) -> None:
    place = three_weeks
    for number, name in enumerate(("Dan", "Eve", "Fay")):
        place.airlines[2]["name"] = name
        place.write_airlines()
        rows = [{"at": (DAY + number * HOUR).isoformat(), "key": "c2", "amount": 7}]
        place.land(f"{number}.json", rows)
        succeed(spark, place, f"run{number}")
        place.check()
    place.airlines[2]["name"] = "Gil"
    place.write_airlines()
    rewound(spark, place, "run0")
    place.check()
    place.airlines[2]["name"] = "Hal"
    place.write_airlines()
    succeed(spark, place, "after")
    place.check()


@pytest.mark.long
def test_frozen_windows_stay_and_what_is_sealed_follows(
    spark: SparkSession, tmp_path: Path
) -> None:
    watermark = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    place = begun(tmp_path, watermark=watermark)
    rows = [
        {"at": (DAY + number * HOUR).isoformat(), "key": f"c{number % 3}", "amount": 3}
        for number in range(120)
    ]
    place.land("rows.json", rows)
    newest = DAY + 120 * HOUR
    succeed(spark, place, "first", scheduled=newest)
    # By a batch's own time, which is now.
    hours = (datetime.now(UTC) - DAY) // HOUR - 48
    place = replace(place, content={**place.content, "keep": f"{hours} hours"})
    accept_changed_file(place)
    place.land("more.json", [rows[-1] | {"key": "c4"}])
    succeed(spark, place, "second", scheduled=newest + HOUR)
    before = place.gold("named").to_pylist()
    for carrier in place.airlines:
        carrier["name"] = "Zoe"
    place.write_airlines()
    # What a held run sealed is known with the lookup of then.
    succeed(spark, place, "held", hold=True, scheduled=newest + 3 * HOUR)
    place.airlines[1]["name"], place.airlines[2]["region"] = "Yan", "us"
    place.write_airlines()
    succeed(spark, place, "third", scheduled=newest + 4 * HOUR)
    after = place.gold("named").to_pylist()
    assert {row["airlines_name"] for row in after} == {"Ada", "Zoe", "Yan"}
    frozen = {row["window_start"]: row for row in after if row["airlines_name"] == "Ada"}
    assert len(frozen) > 24
    assert frozen == {row["window_start"]: row for row in before if row["window_start"] in frozen}
    audited = audit(spark, place)
    assert all(not one.found.windows for one in audited.tables.values())
    assert all(one.found.bronze_windows for one in audited.tables.values())


@pytest.mark.long
def test_a_measure_that_fails_by_what_a_lookup_says_is_told_as_long_as_it_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = {
        "window": {"length": "1 hour"},
        "group_by": ["airlines.name"],
        # Fails when it is evaluated, and on a row.
        "measures": {
            "share": "sum(amount) / (max(rates.factor) - 2)",
            "part": "sum(9 / rates.factor)",
        },
    }
    place = begun(tmp_path, tables={"t": table})
    place.rates = {"c0": (4, "x"), "c1": (4, "x")}
    place.write_rates()
    at = (DAY + HOUR).isoformat()
    place.land("rows.json", [{"at": at, "key": key, "amount": 6} for key in ("c0", "c1")])

    def stand(name: str) -> tuple[list[str], set[str]]:
        succeed(spark, place, name)
        run = place.run("look").table("t")
        failing = failing_windows(
            run.gold.existing(), run.changes.existing(), run.operator, run.state
        )
        shown = place.gold("t").column("airlines_name").to_pylist()
        return sorted(shown), set(failing.column("airlines_name").to_pylist())

    assert stand("first") == (["Ada"], set())
    place.rates["c1"] = (0, "x")
    place.write_rates()
    assert stand("fails on a row") == ([], {"Ada"})
    place.airlines[1]["name"] = "Bob"
    place.write_airlines()
    assert stand("another fails") == (["Ada"], {"Bob"})
    place.airlines[1]["name"] = "Ada"
    place.rates["c1"] = (1, "x")
    place.rates["c0"] = (2, "x")
    place.write_airlines()
    place.write_rates()
    assert stand("fails when evaluated") == ([], {"Ada"})
    place.airlines[0]["name"] = place.airlines[1]["name"] = "Cyd"
    place.write_airlines()
    assert stand("another one instead") == ([], {"Cyd"})
    place.rates["c0"] = (3, "x")
    place.write_rates()
    assert stand("mended") == (["Cyd"], set())
    place.airlines[1]["name"] = "Ada"
    place.rates["c1"] = (2, "x")
    place.write_airlines()
    place.write_rates()
    assert stand("again") == (["Cyd"], {"Ada"})
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    check_balance(place.name, lines, "")


@pytest.mark.long
def test_keys_are_of_many_types_and_all_of_them_have_to_be_equal(
    spark: SparkSession, tmp_path: Path
) -> None:
    types = {
        "flag": "boolean", "price": "decimal(6,2)", "day": "date", "since": "timestamp",
        "small": "short", "key": "string",
    }  # fmt: skip
    one = {
        "flag": True, "price": Decimal("1.50"), "day": date(2026, 7, 1),
        "since": datetime(2026, 7, 1, 12, 0, 0, 1, UTC), "small": 7, "key": "ä",
    }  # fmt: skip
    others = [
        one | {"flag": False}, one | {"price": Decimal("1.51")}, one | {"day": date(2026, 7, 2)},
        one | {"since": DAY}, one | {"small": 8}, one | {"key": "A"}, one | {"small": None},
    ]  # fmt: skip
    source = clicks()["source"] | {"columns": {"at": "timestamp", **types}}
    lookup = {"file": "dims/a.parquet", "on": list(types), "columns": {"name": "string"}}
    table = {
        "window": {"length": "1 hour"},
        "group_by": ["many.name"],
        "measures": {"events": "count(*)"},
    }
    place = LookingUp.at(tmp_path, source=source, lookup={"many": lookup}, tables={"t": table})

    def write(name: str) -> None:
        rows = pa.Table.from_pylist([one | {"name": name}])
        (tmp_path / "dims").mkdir(exist_ok=True)
        small = rows.schema.get_field_index("small")
        pq.write_table(rows.set_column(small, "small", rows["small"].cast(pa.int16())),
                       tmp_path / "dims/a.parquet")  # fmt: skip

    def shown() -> list[tuple[Any, ...]]:
        rows = place.gold("t").to_pylist()
        return [(row["many_name"], row["rows"]) for row in rows if row["many_name"]]

    write("first")
    rows = [{"at": DAY.isoformat(), **{name: _json(value) for name, value in of.items()}}
            for of in (one, *others, one)]  # fmt: skip
    place.land("rows.json", rows)
    succeed(spark, place, "first")
    assert shown() == [("first", 2)]
    write("second")
    succeed(spark, place, "second")
    assert shown() == [("second", 2)]
    assert sorted(row["rows"] for row in caused(place, "t", "second")) == [0, 2]
    assert sum(place.gold("t").column("rows").to_pylist()) == 9


def _json(value: Any) -> Any:
    return value if isinstance(value, int | None) else str(value)


@pytest.mark.second
def test_a_copy_is_read_however_old_it_is(spark: SparkSession, tmp_path: Path) -> None:
    place = begun(tmp_path)
    rows = [{"at": (DAY + HOUR).isoformat(), "key": f"c{number}", "amount": 3} for number in (1, 2)]
    place.land("first.json", rows)
    for name in ("Ada", "Bob", "Cyd"):
        place.airlines[1]["name"] = name
        place.write_airlines()
        succeed(spark, place, name)
    copy = Path(place.warehouse.lookup("airlines").uri)
    assert [one["operation"] for one in DeltaTable(copy).history(1)] == ["VACUUM END"]
    year_ago = time.time() - 365 * 86_400
    for file in (copy / "_delta_log").iterdir():
        os.utime(file, (year_ago, year_ago))
    place.land("late.json", rows)
    succeed(spark, place, "late")
    place.check()
    audited = audit(spark, place)
    assert all(not one.found.windows for one in audited.tables.values())


@pytest.mark.second
@pytest.mark.parametrize("left", ["held", "killed"])
def test_a_lookup_that_is_taken_back_before_its_run_was_published_leaves_gold_as_it_was(
    spark: SparkSession, three_weeks: LookingUp, left: str
) -> None:
    place = three_weeks
    before = {table: place.found(table) for table in TABLES}
    said = [dict(one) for one in place.airlines]
    # Each group goes by it.
    for one in place.airlines:
        one["name"], one["region"] = "Zoe", "us"
    place.write_airlines()
    if left == "held":
        succeed(spark, place, "mistake", hold=True)
    else:
        with killed("before", "gold"):
            assert run_warm(spark, place, "mistake").error is not None
    for one, former in zip(place.airlines, said, strict=True):
        one.update(former)
    place.write_airlines()
    succeed(spark, place, "taken back")
    place.check()
    assert {table: place.found(table) for table in TABLES} == before
