"""A changed table begins another generation from bronze: gold is the batch aggregate at once, and
runs go on from there."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from tests.end_to_end.generations import (
    MODES,
    WINDOW,
    ThreeRuns,
    changed,
    first_of,
    goes_on,
    is_right,
    migrate,
    migrated,
    rolled_back,
    table,
)
from tests.kit.killed import Killed, killed
from tests.kit.running import (
    Place,
    accept_changed_file,
    clicks,
    query,
    run_warm,
    sorted_rows,
    succeed,
)
from tests.streaming.audits import audit, event, gold_of
from tidemark.cli.main import app
from tidemark.errors import MigrationRefused
from tidemark.gold.state import gold_state
from tidemark.pipeline.model import WindowTable
from tidemark.recompute.migration_result import migration_lines
from tidemark.runs.generations import abandoned
from tidemark.runs.losses import find_losses
from tidemark.upkeep.maintenance.maintain import maintain_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def revisions(place: Place) -> dict[tuple[int, int, Any], tuple[str, int]]:
    return {
        (row["window_start"].hour, row["window_start"].minute, row["key"]): (
            row["status"],
            row["revision"],
        )
        for row in place.gold().to_pylist()
    }


@pytest.mark.parametrize("mode", first_of(MODES))
def test_a_new_measure_is_no_correction_and_runs_go_on(
    spark: SparkSession, three_runs: ThreeRuns, mode: str
) -> None:
    place = three_runs(mode)
    before, state = revisions(place), gold_state(gold_of(place))
    measures = {**WINDOW["measures"], "largest": "max(amount)"}
    place = changed(place, measures=measures)
    assert run_warm(spark, place, "refused").error is not None
    result = migrated(spark, place)
    assert (result.former_generation, result.generation) == (1, 2)
    assert revisions(place) == before
    after = gold_state(gold_of(place))
    assert (after.generation, after.close_ms) == (2, state.close_ms)
    is_right(spark, place)
    goes_on(spark, place)


DOUBLED = {"events": "count(*)", "amount": "sum(amount * 2)"}


@pytest.mark.long
def test_a_measure_over_a_column_that_the_source_gets_is_null_for_rows_of_before(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    root = three_runs("update").root
    source = clicks()["source"]
    source["columns"] = {**source["columns"], "more": "long"}
    tables = table("update", measures={**WINDOW["measures"], "more": "sum(more)"})
    place = Place(root, clicks(source=source, tables=tables))
    migrated(spark, place)
    assert set(place.gold()["more"].to_pylist()) == {None}
    place.land("more.json", [{**event(11, 6, "a", 1), "more": 5}])
    succeed(spark, place, "more")
    assert 5 in place.gold()["more"].to_pylist()
    goes_on(spark, place)


@pytest.mark.long
def test_a_file_that_changes_again_before_the_first_batch_needs_another_generation(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = changed(three_runs("update"), measures=DOUBLED)
    migrated(spark, place)
    place = changed(place, group_by=[])
    refused = run_warm(spark, place, "refused").error
    assert refused is not None
    assert "`tidemark migrate clicks --dry-run`" in refused.message
    assert migrated(spark, place).generation == 3
    is_right(spark, place)
    goes_on(spark, place)


def test_a_dry_run_writes_nothing_and_says_what_would_change(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    before, version = sorted_rows(place.gold()), gold_of(place).version()
    place = changed(place, measures={"events": "count(*)", "amount": "sum(amount * 2)"})
    result = migrate(spark, place, dry_run=True)
    assert result.error is None, result.error
    assert result.found is not None
    assert (result.generation, result.found.corrected > 0) == (None, True)
    assert any("to compute, which needs no lease" in line for line in migration_lines(result))
    assert (sorted_rows(place.gold()), gold_of(place).version()) == (before, version)
    assert not (place.root / "clicks/per_10m/changes-2").exists()
    assert not (place.root / "clicks/checkpoints/per_10m/2").exists()


@pytest.mark.long
def test_a_held_run_is_in_the_next_generation(spark: SparkSession, three_runs: ThreeRuns) -> None:
    place = three_runs("update")
    place.land("held.json", [event(10, 12, "a", 50), event(11, 40, "a", 3)])
    assert run_warm(spark, place, "held", hold=True).error is None
    place = changed(place, measures={**WINDOW["measures"], "largest": "max(amount)"})
    migrated(spark, place)
    is_right(spark, place)
    goes_on(spark, place)


@pytest.mark.long
@pytest.mark.parametrize("mode", first_of(MODES))
def test_a_rollback_brings_gold_back_as_it_was_and_its_generation_goes_on(
    spark: SparkSession, three_runs: ThreeRuns, mode: str
) -> None:
    place = three_runs(mode)
    before, state = sorted_rows(place.gold()), gold_state(gold_of(place))
    new = changed(place, measures={"events": "count(*)", "amount": "sum(amount * 2)"})
    migrated(spark, new)
    new.land("between.json", [event(10, 33, "a", 70), event(11, 30, "b", 8)])
    succeed(spark, new, "between")
    rolled_back(place)
    assert sorted_rows(place.gold()) == before
    after = gold_state(gold_of(place))
    assert (after.generation, after.close_ms, after.changes, after.bronze) == (
        state.generation,
        state.close_ms,
        state.changes,
        state.bronze,
    )
    succeed(spark, place, "after")
    is_right(spark, place)
    goes_on(spark, place)
    # Known without the log, which maintenance cuts.
    assert abandoned(gold_of(place)) == 2
    assert find_losses(place.pipeline, place.warehouse) == ()
    assert migrated(spark, new, "again").generation == 3
    is_right(spark, new)


@pytest.mark.long
def test_two_rollbacks_leave_both_generations_behind(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    second = changed(place, measures=DOUBLED)
    migrated(spark, second)
    succeed(spark, second, "second")
    third = changed(place, group_by=[])
    migrated(spark, third)
    succeed(spark, third, "third")
    rolled_back(second)
    rolled_back(place)
    assert abandoned(gold_of(place)) == 3
    assert find_losses(place.pipeline, place.warehouse) == ()
    goes_on(spark, place)


LOSSES = {
    "both": ["per_10m/changes", "checkpoints/per_10m/1"],
    "changes": ["per_10m/changes"],
    "checkpoint": ["checkpoints/per_10m/1"],
    "both and the contract": [
        "per_10m/changes",
        "checkpoints/per_10m/1",
        "checkpoints/per_10m/1.contract.json",
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("lost", first_of(LOSSES))
@pytest.mark.parametrize("mode", first_of(MODES))
def test_a_table_whose_query_or_history_was_lost_is_built_again(
    spark: SparkSession, three_runs: ThreeRuns, mode: str, lost: str
) -> None:
    place = three_runs(mode)
    before = sorted_rows(place.gold())
    for name in LOSSES[lost]:
        path = place.root / "clicks" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    stopped = run_warm(spark, place, "stopped").error
    assert stopped is not None
    assert "`tidemark migrate clicks --rebuild per_10m`" in stopped.message
    result = migrate(spark, place, rebuild=True)
    assert result.error is None, result.error
    assert sorted_rows(place.gold()) == before
    goes_on(spark, place)


@pytest.mark.long
def test_gold_that_is_gone_or_restored_behind_a_migration_is_told(
    spark: SparkSession, tmp_path: Path, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    shutil.copytree(place.places.gold("per_10m"), tmp_path / "kept")
    place = changed(place, measures={**WINDOW["measures"], "largest": "max(amount)"})
    migrated(spark, place)
    succeed(spark, place, "on")
    shutil.rmtree(place.places.gold("per_10m"))
    gone = run_warm(spark, place, "gone").error
    assert gone is not None
    assert "was migrated to generation 2" in gone.message
    shutil.copytree(tmp_path / "kept", place.places.gold("per_10m"))
    restored = run_warm(spark, place, "restored").error
    assert restored is not None
    assert "is of generation 1, and per_10m was migrated to generation 2" in restored.message


@pytest.mark.long
@pytest.mark.parametrize("lost", first_of(["gold", "gold and its query"]))
@pytest.mark.parametrize("mode", first_of(MODES))
def test_gold_that_is_gone_behind_a_migration_is_built_again_from_bronze(
    spark: SparkSession, three_runs: ThreeRuns, mode: str, lost: str
) -> None:
    place = changed(three_runs(mode), measures=DOUBLED)
    migrated(spark, place)
    succeed(spark, place, "on")
    close = gold_state(gold_of(place)).close_ms
    shutil.rmtree(place.places.gold("per_10m"))
    if lost != "gold":
        shutil.rmtree(place.places.query_checkpoint("per_10m", 2))
        shutil.rmtree(place.places.changes("per_10m", 2))
    stopped = run_warm(spark, place, "stopped").error
    assert stopped is not None
    assert "`tidemark migrate clicks --rebuild per_10m` computes gold" in stopped.message
    result = migrate(spark, place, rebuild=True)
    assert (result.error, result.generation) == (None, 3)
    assert gold_state(gold_of(place)).close_ms == close
    assert {revision for _, revision in revisions(place).values()} == {0}
    is_right(spark, place)
    goes_on(spark, place)


@pytest.mark.long
def test_frozen_windows_of_lost_gold_come_from_its_history(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Bronze has no row of theirs any more."""
    now = datetime.now(UTC)

    def row(days_ago: float, amount: int) -> dict[str, Any]:
        at = now - timedelta(days=days_ago)
        return {"at": at.isoformat(), "key": "a", "amount": amount}

    def told(place: Place) -> list[dict[str, Any]]:
        columns = ["window_start", "key", "events", "amount"]
        return place.gold().select(columns).sort_by("window_start").to_pylist()

    place = Place(tmp_path, clicks(keep="40 days", tables=table("update")))
    place.land("1.json", [row(39, 1), row(35, 2), row(1, 3)])
    succeed(spark, place, "run-1")
    place.content = clicks(keep="30 days", tables=table("update"))
    accept_changed_file(place)
    place.land("2.json", [row(0.01, 4)])
    succeed(spark, place, "run-2")
    place = Place(tmp_path, clicks(keep="30 days", tables=table("update", measures=DOUBLED)))
    migrated(spark, place)
    succeed(spark, place, "run-3")
    before = told(place)
    assert len(before) == 4
    shutil.rmtree(place.places.gold("per_10m"))
    assert migrate(spark, place, rebuild=True).error is None
    assert told(place) == before
    place.land("3.json", [row(0.005, 5)])
    succeed(spark, place, "run-4")
    assert audit(spark, place).outcome == "equal"


def test_a_window_that_would_reach_back_to_dropped_dates_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    old = {"keep": "8 days"}
    place = Place(tmp_path, clicks(tables=table("update"), **old))
    rows = [now - timedelta(days=7), now - timedelta(days=3)]
    place.land("1.json", [{"at": at.isoformat(), "key": "a", "amount": 1} for at in rows])
    succeed(spark, place, "run-1")
    longer = table("update", window={"length": "7 days", "slide": "1 day"})
    place = Place(tmp_path, clicks(tables=longer, **old))
    refused = migrate(spark, place, dry_run=True).error
    assert refused is not None
    assert refused.type == "MigrationRefused"
    assert f"bronze has rows from {(now - timedelta(days=8)).date()} on only" in refused.message
    shorter = table("update", window={"length": "1 day"})
    assert migrated(spark, Place(tmp_path, clicks(tables=shorter, **old))).generation == 2


@pytest.mark.long
def test_a_lost_query_of_a_table_that_changed_too_is_built_again_by_the_contract_that_is_there(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    for name in LOSSES["both"]:
        shutil.rmtree(place.root / "clicks" / name)
    place = changed(place, measures=DOUBLED)
    result = migrate(spark, place, rebuild=True)
    assert result.error is None, result.error
    assert any("sum(amount * 2)" in line for line in result.changes)
    assert result.found is not None
    assert result.found.corrected > 0
    goes_on(spark, place)


@pytest.mark.long
def test_a_batch_that_was_left_never_runs_a_migrated_table_by_its_former_definition(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    """All of what planned the batch would come back with it."""
    place = three_runs("update")
    place.land("left.json", [event(10, 3, "a", 9), event(11, 6, "a", 3)])
    with killed("after", "accepted rows"):
        assert run_warm(spark, place, "left").error is not None
    place = changed(place, measures=DOUBLED)
    migrated(spark, place)
    source = {**clicks()["source"]}
    source["columns"] = {**source["columns"], "more": "long"}
    other = Place(place.root, clicks(source=source, tables=table("update", measures=DOUBLED)))
    refused = run_warm(spark, other, "refused").error
    assert refused is not None
    assert refused.type == "PipelineChanged"
    assert "ingest as it was when the batch was planned" in refused.message
    succeed(spark, place, "finishes")
    is_right(spark, place)
    succeed(spark, other, "takes")
    is_right(spark, other)


@pytest.mark.long
def test_gold_of_a_first_generation_that_is_gone_can_be_built_again_from_bronze(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    close = gold_state(gold_of(place)).close_ms
    shutil.rmtree(place.places.gold("per_10m"))
    with killed("before", "gold of another generation"):
        assert migrate(spark, place, rebuild=True).error is not None
    # An empty gold is there by now.
    assert gold_state(gold_of(place)).close_ms == 0
    assert migrate(spark, place, rebuild=True).error is None
    assert gold_state(gold_of(place)).close_ms == close
    is_right(spark, place)
    goes_on(spark, place)


# The steps of a migration that write, in their order.
STEPS = (
    "contract recorded",
    "query of a generation named",
    "table made",
    "windows of a generation",
    "ledger",
    "gold of another generation",
)
KILLS = [(when, step) for step in STEPS for when in ("before", "after")]


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("when", "step"), KILLS)
def test_a_killed_migration_is_repeated_or_runs_go_on_as_before(
    spark: SparkSession,
    three_runs: ThreeRuns,
    mode: str,
    when: Literal["before", "after"],
    step: str,
) -> None:
    place = three_runs(mode)
    before = sorted_rows(place.gold())
    new = changed(place, measures=DOUBLED)
    with killed(when, step):
        assert migrate(spark, new, "killed").error is not None
    done = (when, step) == ("after", "gold of another generation")
    if done:
        assert gold_state(gold_of(place)).generation == 2
        # The repeat finds nothing that differs.
        assert migrated(spark, new).generation is None
    else:
        assert sorted_rows(place.gold()) == before
        place.land("meanwhile.json", [event(10, 34, "a", 2), event(11, 6, "b", 3)])
        succeed(spark, place, "schedule")
        is_right(spark, place)
        migrated(spark, new)
    is_right(spark, new)
    goes_on(spark, new)


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_rollback_is_repeated(
    spark: SparkSession, three_runs: ThreeRuns, when: Literal["before", "after"]
) -> None:
    place = three_runs("update")
    before = sorted_rows(place.gold())
    migrated(spark, changed(place, measures=DOUBLED))
    with killed(when, "gold of the former generation"), pytest.raises(Killed):
        rolled_back(place)
    if when == "before":
        assert gold_state(gold_of(place)).generation == 2
        rolled_back(place)
    with pytest.raises(MigrationRefused, match="there is nothing to go back to"):
        rolled_back(place)
    assert sorted_rows(place.gold()) == before
    goes_on(spark, place)


def test_commands_know_generations(spark: SparkSession, three_runs: ThreeRuns) -> None:
    """Before its first batch and after it, a generation is well; the one before can be gone back
    to, until maintenance removes its checkpoint."""
    place = three_runs("update")
    new = changed(place, measures=DOUBLED)
    migrated(spark, new)
    for code in (10, 0):  # `new`, then `clean end`
        told = tidemark(new, "checkpoint", "doctor", "clicks")
        assert told.exit_code == code, told.output
        assert "generation 2" in told.output
        assert tidemark(new, "status", "clicks").exit_code == 0
        assert tidemark(new, "ledger", "rebuild", "clicks").exit_code == 0
        assert tidemark(new, "maintain", "clicks", "--apply").exit_code == 0
        assert place.warehouse.file_at(place.places.query_checkpoint("per_10m", 1)).files()
        succeed(spark, new, "on")
    shown = tidemark(new, "migrate", "clicks", "--rollback", "per_10m", "--dry-run")
    assert "from generation 2 back to 1" in shown.output, shown.output
    later = datetime.now(UTC) + timedelta(days=8)
    maintain_pipeline(new.pipeline, new.settings, "later", later)
    assert not place.warehouse.file_at(place.places.query_checkpoint("per_10m", 1)).files()
    assert DeltaTable(place.places.changes("per_10m", 1)).version() >= 0
    refused = tidemark(new, "migrate", "clicks", "--rollback", "per_10m")
    assert refused.exit_code == 1
    assert "cannot go back to generation 1: its checkpoint is gone" in refused.output


def tidemark(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)


MEASURES = {
    "events": "count(*)",
    "total": "sum(amount)",
    "largest": "max(amount)",
    "smallest": "min(amount)",
}


def random_table(random: Random) -> dict[str, Any]:
    """Some keys, some measures of one column or another, tumbling or sliding, in any mode."""
    length = random.choice([5, 10, 20, 30])
    slide = random.choice([one for one in (5, 10, 20, 30) if length % one == 0])
    names = random.sample(["one", "two", "three"], random.randint(1, 3))
    sources = random.sample(["events", "total", "largest", "smallest"], len(names))
    mode = random.choice(MODES)
    return {
        "window": {"length": f"{length} minutes", "slide": f"{slide} minutes"},
        "group_by": random.sample(["key", "amount"], random.randint(0, 2)),
        "measures": {name: MEASURES[of] for name, of in zip(names, sources, strict=True)},
        "output_mode": mode,
        "accept_unbounded_state": mode == "complete",
    }


def by_duckdb(place: Place) -> list[dict[str, Any]]:
    """What gold has to show, by a query of its own over bronze."""
    model = place.pipeline.tables["per_10m"]
    assert isinstance(model, WindowTable)
    length, slide = (
        one // timedelta(microseconds=1) for one in (model.window.length, model.window.slide)
    )
    keys = "".join(f', "{key}"' for key in model.group_by)
    measures = ", ".join(f'({sql})::BIGINT AS "{name}"' for name, sql in model.measures.items())
    closed = ""
    if model.output_mode == "append":
        close = gold_state(gold_of(place)).close_ms
        closed = f"WHERE start + {length} <= {close * 1_000}"
    sql = f"""
        SELECT make_timestamptz(start) AS window_start {keys}, {measures} FROM (
            SELECT *, epoch_us("at") // {slide} * {slide} - unnest(range({length // slide}))
                * {slide} AS start FROM bronze
        ) {closed} GROUP BY ALL
    """
    names = ["window_start", *model.group_by, *model.measures]
    rows = query(sql, bronze=place.bronze())
    return sorted((dict(zip(names, row, strict=True)) for row in rows), key=str)


def shown(place: Place) -> list[dict[str, Any]]:
    model = place.pipeline.tables["per_10m"]
    names = ["window_start", *model.group_by, *model.measures]
    return sorted(place.gold().select(names).to_pylist(), key=str)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25))
def test_random_changes_one_after_the_other_give_what_duckdb_gives(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    places = [Place(tmp_path, clicks(tables={"per_10m": random_table(random)})) for _ in range(3)]
    newest = 60
    for number, place in enumerate(places):
        if number:
            result = migrate(spark, place, f"migrate-{number}", rebuild=True)
            assert result.error is None, result.error
            assert shown(place) == by_duckdb(place)
        for file in range(2):
            minutes = [random.randint(max(0, newest - 90), newest) for _ in range(12)]
            rows = [
                event(8 + m // 60, m % 60, random.choice(["a", "b", None]), random.randint(0, 3))
                for m in minutes
            ]
            place.land(f"{number}-{file}.json", rows)
            newest += random.randint(0, 40)
            hold = random.random() < 0.2
            ended = run_warm(spark, place, f"run-{number}-{file}", hold=hold)
            assert ended.error is None, ended.error
            if not hold:
                assert shown(place) == by_duckdb(place)
    assert audit(spark, places[-1]).outcome == "equal"
