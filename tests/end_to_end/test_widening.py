"""A column of the source becomes wider: bronze is written again, and holds what it held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from typer.testing import CliRunner

from tests.end_to_end.generations import first_of, is_right, migrate, rolled_back
from tests.kit.killed import killed
from tests.kit.running import (
    Place,
    accept_changed_file,
    clicks,
    query,
    run_warm,
    sorted_rows,
    succeed,
)
from tests.streaming.audits import audit, event
from tidemark.cli.main import app
from tidemark.errors import MigrationRefused
from tidemark.gold.other_readers import OtherReader, note_reader
from tidemark.pipeline.column_types import is_wider, same_type
from tidemark.recompute.migration_result import migration_lines
from tidemark.recompute.rewind.plan import planned
from tidemark.recompute.table_change import changed_tables
from tidemark.runs.contract.recorded import column_types
from tidemark.runs.losses import find_losses
from tidemark.runs.requests import RewindRequest
from tidemark.storage.delta.notes import WidenedNote, note_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURES = {
    "events": "count(*)",
    "total": "sum(amount)",
    "largest": "max(amount)",
    "mean": "avg(amount)",
}


def place_at(root: Path, amount: str = "int", **changes: Any) -> Place:
    """A pipeline whose `amount` is of a type; `changes` are of its table, or of `source`."""
    source = clicks()["source"]
    source["columns"]["amount"] = amount
    source |= changes.pop("source", {})
    table = {"window": {"length": "10 minutes"}, "group_by": ["key"], "measures": MEASURES}
    return Place(root, clicks(source=source, tables={"per_10m": table | changes}))


def widened(place: Place, amount: str) -> Place:
    source = {**place.content["source"]}
    source["columns"] = {**source["columns"], "amount": amount}
    return replace(place, content={**place.content, "source": source})


def ran(spark: SparkSession, place: Place, values: Sequence[Any] = (1, 2, 3)) -> Place:
    """Two runs with these values, the second with late ones."""
    place.land("1.json", [event(10, 7 * n, "ab"[n % 2], value) for n, value in enumerate(values)])
    succeed(spark, place, "run-1")
    place.land("2.json", [event(11, 40, "a", values[0]), event(10, 3, "a", values[-1])])
    succeed(spark, place, "run-2")
    return place


def amount_type(place: Place) -> str:
    return column_types(place.warehouse.bronze.existing())["amount"]


def rows_of(place: Place) -> list[tuple[Any, ...]]:
    return sorted_rows(place.bronze())


# Without Spark.

NARROWEST = ("byte", "short", "int", "long", "double")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((one, other) for n, one in enumerate(NARROWEST) for other in NARROWEST[n + 1 :]),
        ("tinyint", "bigint"),
        ("int", "decimal(10,0)"),
        ("long", "decimal(21,2)"),
        ("decimal(5,2)", "decimal(7,4)"),
        ("decimal", "decimal(11,1)"),
        ("real", "double"),
        ("date", "timestamp"),
    ],
)
def test_a_type_that_holds_all_values_is_wider_and_not_the_other_way(old: str, new: str) -> None:
    assert is_wider(new, old)
    assert not is_wider(old, new)
    assert not is_wider(old, old)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("integer", "int"),
        ("decimal", "decimal(10,0)"),
        ("dec(5)", "decimal(5,0)"),
        ("array<numeric>", "array<decimal(10)>"),
        ("struct<decimal:decimal>", "struct<decimal:decimal(10,0)>"),
    ],
)
def test_two_spellings_of_a_type_are_the_same_and_none_is_wider(one: str, other: str) -> None:
    assert same_type(one, other)
    assert not is_wider(one, other)
    assert not is_wider(other, one)


def test_a_field_that_is_called_as_a_type_keeps_its_name() -> None:
    assert not same_type("struct<decimal:int>", "struct<dec:int>")
    assert not same_type("struct<`decimal`:int>", "struct<`decimal(10,0)`:int>")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "decimal(10,1)"),
        ("long", "decimal(18,0)"),
        ("decimal(5,2)", "decimal(6,4)"),
        ("decimal(5,2)", "double"),
        ("long", "float"),
        ("int", "string"),
        ("timestamp", "date"),
        ("array<int>", "array<long>"),
        ("struct<a:int>", "struct<a:long>"),
        ("bigint", "long"),
    ],
)
def test_one_that_lacks_some_value_is_not(old: str, new: str) -> None:
    assert not is_wider(new, old)


# With Spark: histories.

Draw = Callable[[Random], Any]
# By type, what lands once the column has it.
CHAINS: Mapping[str, Sequence[tuple[str, Draw]]] = {
    "whole": (
        ("byte", lambda draw: draw.randint(-128, 127)),
        ("short", lambda draw: draw.choice([-(2**15), 2**15 - 1, 300])),
        ("int", lambda draw: draw.choice([-(2**31), 2**31 - 1, draw.randint(-9, 9)])),
        ("long", lambda draw: draw.randint(-(2**60), 2**60)),
        ("decimal(21,1)", lambda draw: Decimal(draw.randint(-(10**19), 10**19)) / 10),
    ),
    "doubles": (
        ("int", lambda draw: draw.randint(-(2**31), 2**31 - 1)),
        ("double", lambda draw: draw.choice([0.5, 1e9, -2.25])),
    ),
    "floats": (
        ("float", lambda draw: draw.choice([0.5, -3.25, 1e10])),
        ("double", lambda draw: draw.choice([1e300, 0.1])),
    ),
    "decimals": (
        ("decimal(4,1)", lambda draw: Decimal(draw.randint(-9999, 9999)) / 10),
        ("decimal(8,3)", lambda draw: Decimal(draw.randint(-(10**8) + 1, 10**8 - 1)) / 1000),
    ),
}


def landed(draw: Random, run: int, value: Draw) -> list[str]:
    """Lines with times that go on, and late ones; a decimal is written with all its digits."""
    lines = []
    for _ in range(draw.randint(3, 8)):
        minutes = draw.choice([30 * run + draw.randint(0, 29), draw.randint(0, 30 * run + 29)])
        at = datetime(2026, 7, 1, tzinfo=UTC) + timedelta(minutes=minutes)
        lines.append(
            f'{{"at": "{at.isoformat()}", "key": "{draw.choice("ab")}", "amount": {value(draw)}}}'
        )
    return lines


@pytest.mark.parametrize(
    ("chain", "seed"),
    [
        ("whole", 1),
        *(pytest.param(chain, seed, marks=pytest.mark.long) for chain in CHAINS for seed in (2, 3)),
    ],
)
def test_gold_is_the_batch_over_all_rows_by_the_last_types(
    spark: SparkSession, tmp_path: Path, chain: str, seed: int
) -> None:
    draw = Random(seed)
    steps = CHAINS[chain]
    # Some types are passed over: a step may be a large one.
    kept = [step for step in steps[:-1] if draw.random() < 0.7] or [steps[0]]
    place = place_at(
        tmp_path,
        kept[0][0],
        output_mode=draw.choice(["update", "append"]),
        group_by=["key", "amount"] if draw.random() < 0.5 else ["key"],
        source={"derive": {"small": "amount < 10"}},
    )
    run, values = 0, []
    for kind, value in [*kept, steps[-1]]:
        if run:
            place = widened(place, kind)
            refused = run_warm(spark, place, f"refused-{run}").error
            assert refused is not None
            before = len(place.bronze())
            result = migrate(spark, place, f"migrate-{run}")
            assert result.error is None, result.error
            assert same_type(amount_type(place), kind)
            assert len(place.bronze()) == before
            assert find_losses(place.pipeline, place.warehouse) == ()
            is_right(spark, place)
        for _ in range(draw.randint(1, 2)):
            lines = landed(draw, run, value)
            values += [line.rpartition(": ")[2].rstrip("}") for line in lines]
            place.land(f"{run}.json", lines)
            succeed(spark, place, f"run-{run}")
            run += 1
    is_right(spark, place)
    # Each value that was written, and none is another.
    assert len(place.rejects()) == 0
    found = sorted(place.bronze()["amount"].to_pylist())
    of_type = type(found[0])
    assert found == sorted(map(of_type, values))
    derived = place.bronze().select(["amount", "small"]).to_pylist()
    assert all(row["small"] == (row["amount"] < 10) for row in derived)


def test_a_date_becomes_its_midnight(spark: SparkSession, tmp_path: Path) -> None:
    place = place_at(tmp_path, "date", measures={"events": "count(*)", "last": "max(amount)"})
    place = ran(spark, place, ["2026-01-01", "1969-12-31", "2026-01-03"])
    place = widened(place, "timestamp")
    result = migrate(spark, place)
    assert result.error is None, result.error
    assert result.found is not None
    assert result.found.corrected == 0
    assert set(place.bronze()["amount"].to_pylist()) == {
        datetime(day.year, day.month, day.day, tzinfo=UTC)
        for day in (date(2026, 1, 1), date(1969, 12, 31), date(2026, 1, 3))
    }
    place.land("3.json", [event(10, 8, "a", "2026-01-03T12:00:00Z")])  # type: ignore[arg-type]
    succeed(spark, place, "run-3")
    is_right(spark, place)


# With Spark: what a migration says, and what it refuses.


def test_it_says_what_is_written_again_and_a_dry_run_writes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = ran(spark, place_at(tmp_path))
    before, version = rows_of(place), place.warehouse.bronze.existing().version()
    gold = sorted_rows(place.gold())
    place = widened(place, "long")
    place.write_file()
    said = CliRunner().invoke(app, ["validate", "clicks"], env=place.variables)
    assert said.exit_code == 1
    assert "ingest: source.columns.amount: int → long: needs a new generation" in said.output
    assert "would read 5 rows of bronze again and bronze be written again" in said.output
    result = migrate(spark, place, dry_run=True)
    assert result.error is None, result.error
    assert result.widened is not None
    assert "amount: integer → long: 5 rows in " in result.widened
    assert result.widened in list(migration_lines(result))
    assert place.warehouse.bronze.existing().version() == version
    result = migrate(spark, place)
    assert result.found is not None
    assert (result.found.corrected, result.found.first_seen) == (0, 0)
    assert rows_of(place) == before
    assert [row[:-4] for row in sorted_rows(place.gold())] == [row[:-4] for row in gold]
    bronze = place.warehouse.bronze.existing()
    assert note_of(bronze.history(1)[0]) == WidenedNote(columns=("amount",))
    succeed(spark, place, "run-3")
    is_right(spark, place)
    # The next run has taken the change: nothing differs.
    said = CliRunner().invoke(app, ["validate", "clicks"], env=place.variables)
    assert (said.exit_code, "amount" in said.output) == (0, False)


def refused(spark: SparkSession, place: Place) -> str:
    """A migration that is refused and has changed nothing: why."""
    before = place.warehouse.bronze.existing().version(), sorted_rows(place.gold())
    result = migrate(spark, place)
    assert result.error is not None
    assert result.error.type == "MigrationRefused"
    assert (place.warehouse.bronze.existing().version(), sorted_rows(place.gold())) == before
    return result.error.message


def test_a_long_that_a_double_does_not_hold_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    place = ran(spark, place_at(tmp_path, "long"), [1, 2**53 + 1, 3])
    said = refused(spark, widened(place, "double"))
    assert "amount that would be others (long → double), such as 9007199254740993" in said
    # Up to there each is one.
    other = ran(spark, place_at(tmp_path / "other", "long"), [1, 2**53, 3])
    assert migrate(spark, widened(other, "double")).error is None


def test_a_narrower_type_is_refused_before_and_after(spark: SparkSession, tmp_path: Path) -> None:
    place = ran(spark, place_at(tmp_path))
    wide = widened(place, "long")
    assert migrate(spark, wide).error is None
    # The file as it was: bronze has the wider type.
    error = run_warm(spark, place, "back").error
    assert error is not None
    assert error.type == "TableMismatch"
    assert "amount: the table has long, the pipeline integer" in error.message
    succeed(spark, wide, "run-3")
    error = run_warm(spark, place, "back").error
    assert error is not None
    assert "long → int: not allowed" in error.message


def test_what_is_derived_may_not_become_another(spark: SparkSession, tmp_path: Path) -> None:
    place = place_at(tmp_path, source={"derive": {"text": "cast(amount as string)"}})
    place = ran(spark, place)
    said = refused(spark, widened(place, "double"))
    assert "values of text that would be others (derived anew)" in said
    # As a whole number it is the same text.
    assert migrate(spark, widened(place, "long")).error is None


def test_what_is_derived_has_to_be_held_by_its_wider_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    large = {"large": f"amount * {2**53 + 1}"}
    place = ran(spark, place_at(tmp_path, "long", source={"derive": large}), [1, 2, 3])
    said = refused(spark, widened(place, "double"))
    assert "values of large that would be others (long → double), such as" in said


def test_a_derived_column_alone_does_not_become_wider(spark: SparkSession, tmp_path: Path) -> None:
    place = ran(spark, place_at(tmp_path, source={"derive": {"more": "amount"}}))
    source = {**place.content["source"], "derive": {"more": "cast(amount as bigint)"}}
    place = replace(place, content={**place.content, "source": source})
    assert accept_changed_file(place) == ["source.derive.more"]
    assert migrate(spark, place, rebuild=True).error is not None
    assert amount_type(place) == "integer"


def test_a_bronze_that_others_join_with_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    place = ran(spark, place_at(tmp_path))
    note_reader(place.warehouse, OtherReader(pipeline="shops", table="matched"))
    assert "(matched of shops)" in refused(spark, widened(place, "long"))


def test_where_no_table_has_begun_the_former_types_are_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path)
    place.land("1.json", [event(10, 1)])
    with killed("before", "windows of the stream"):
        assert run_warm(spark, place, "killed").error is not None
    wide = widened(place, "long")
    with pytest.raises(MigrationRefused, match="Put these back, run it once"):
        changed_tables(wide.pipeline, wide.settings)
    succeed(spark, place, "again")
    assert changed_tables(wide.pipeline, wide.settings) == ("per_10m",)
    assert migrate(spark, wide).error is None
    is_right(spark, wide)


KILLS = [("bronze with wider columns", when) for when in ("after", "before")]


@pytest.mark.parametrize("kill", first_of(KILLS))
def test_a_kill_while_bronze_is_written_again_loses_nothing(
    spark: SparkSession, tmp_path: Path, kill: tuple[str, Literal["before", "after"]]
) -> None:
    point, when = kill
    place = ran(spark, place_at(tmp_path))
    before = rows_of(place)
    wide = widened(place, "long")
    with killed(when, point):
        assert migrate(spark, wide, "killed").error is not None
    assert rows_of(place) == before
    if when == "before":
        succeed(spark, place, "as it was")
    else:
        assert run_warm(spark, wide, "waits").error is not None
    assert migrate(spark, wide, "again").error is None
    assert rows_of(wide) == before
    wide.land("3.json", [event(10, 4, "a", 2**40)])
    succeed(spark, wide, "run-3")
    is_right(spark, wide)


def test_nothing_goes_back_behind_it(spark: SparkSession, tmp_path: Path) -> None:
    place = ran(spark, place_at(tmp_path))
    wide = widened(place, "long")
    assert migrate(spark, wide).error is None
    succeed(spark, wide, "run-3")
    with pytest.raises(MigrationRefused, match="got wider types since its query has read it"):
        rolled_back(wide)
    asked = RewindRequest(pipeline=wide.name, to_run="run-1")
    plan = planned(wide.pipeline, wide.settings, asked, datetime.now(UTC))
    assert any("have got wider types since" in reason for reason in plan.refused)


def frozen(spark: SparkSession, root: Path, kind: str, first: int, **table: Any) -> Place:
    """A place whose first window bronze has dropped the rows of (`keep`)."""
    place = place_at(root, kind, **table)
    place = replace(place, content={**place.content, "keep": "60 days"})
    now = datetime.now(UTC)
    days = ((40, first), (39, 6), (2, 7), (1, 8))
    place.land(
        "1.json",
        [
            {"at": (now - timedelta(days=ago)).isoformat(), "key": "a", "amount": value}
            for ago, value in days
        ],
    )
    succeed(spark, place, "run-1")
    place = replace(place, content={**place.content, "keep": "30 days"})
    assert accept_changed_file(place) == ["keep"]
    place.land("2.json", [{"at": now.isoformat(), "key": "a", "amount": 9}])
    succeed(spark, place, "drops")
    assert len(place.bronze()) == 3
    return place


@pytest.mark.long
def test_frozen_rows_keep_their_values(spark: SparkSession, tmp_path: Path) -> None:
    place = frozen(spark, tmp_path, "int", 5)
    before = query("SELECT window_start, total, largest FROM gold", gold=place.gold())
    place = widened(place, "double")
    result = migrate(spark, place)
    assert result.error is None, result.error
    assert result.found is not None
    assert (result.found.frozen, result.found.corrected) == (2, 0)
    after = query("SELECT window_start, total, largest FROM gold", gold=place.gold())
    assert sorted(after) == sorted(before)
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "name"),
    [({}, "largest"), ({"group_by": ["amount"], "measures": {"n": "count(*)"}}, "amount")],
)
def test_a_frozen_value_that_the_type_does_not_hold_is_refused(
    spark: SparkSession, tmp_path: Path, table: dict[str, Any], name: str
) -> None:
    place = frozen(spark, tmp_path, "long", 2**53 + 1, **table)
    said = refused(spark, widened(place, "double"))
    assert f"Frozen rows of per_10m have values of {name} that a double does not hold" in said
