"""The page on output modes: every number of it, and what the worked examples state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.conftest import Worked
from tests.end_to_end.pages import page, table_under
from tests.end_to_end.worked_modes import (
    ADS,
    MODES,
    WORDS,
    Example,
    Row,
    at,
    clock,
    gold_text,
    history,
    steps_text,
)
from tests.kit.running import Place, clicks, query, succeed
from tests.kit.windows import files_by_date

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = page("output-modes.md")


def told(rows: Any, example: Example) -> set[tuple[str, Any, Any]]:
    """Rows as (window, key, value)."""
    return {(clock(r["window_start"]), r[example.key], r[example.measure]) for r in rows}


@pytest.mark.parametrize("mode", MODES)
def test_the_impressions_go_through_the_page_s_steps(impressions: Worked, mode: str) -> None:
    assert steps_text(impressions.steps[mode], ADS) == table_under(PAGE, f"ads {mode}")


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_the_words_go_through_the_page_s_steps(words: Worked, mode: str) -> None:
    assert steps_text(words.steps[mode], WORDS) == table_under(PAGE, f"words {mode}")


def test_gold_is_the_page_s_in_each_mode(impressions: Worked) -> None:
    golds = {mode: gold_text(impressions.steps[mode][-1].gold, ADS) for mode in MODES}
    assert golds["update"] == golds["complete"] == table_under(PAGE, "gold update")
    assert golds["append"] == table_under(PAGE, "gold append")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("example", ["impressions", pytest.param("words", marks=pytest.mark.long)])
def test_closed_windows_are_the_same_in_all_modes_after_each_trigger(
    request: pytest.FixtureRequest, example: str
) -> None:
    worked = request.getfixturevalue(example)
    for triggers in zip(*(worked.steps[mode] for mode in MODES), strict=True):
        closed = [[_value(r) for r in one.gold if r["status"] != "provisional"] for one in triggers]
        assert closed[0] == closed[1] == closed[2]
        assert triggers[0].gold == triggers[2].gold


def _value(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "updated_by"}


@pytest.mark.parametrize("mode", MODES)
def test_a_row_of_12_03_that_comes_after_12_12_still_counts(impressions: Worked, mode: str) -> None:
    step = impressions.steps[mode][3]
    assert step.watermark == "12:04"
    assert (step.dropped, step.result.late.assigned) == (0, 0)
    later = impressions.steps[mode][4].gold
    assert {("11:55", 222, 2), ("12:00", 222, 2)} <= told(later, ADS)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_what_the_engine_drops_is_what_the_ledger_calls_late_windows(
    impressions: Worked, words: Worked, mode: str
) -> None:
    steps = [*impressions.steps[mode], *words.steps[mode]]
    late = [step.result.late.windows for step in steps]
    # Complete mode takes late rows into its state; their windows are closed all the same.
    dropped = [0] * len(late) if mode == "complete" else late
    assert [step.dropped for step in steps] == dropped
    assert sum(late) == 3 + 2


def test_in_append_mode_12_00_comes_once_the_watermark_has_passed_12_10(
    impressions: Worked,
) -> None:
    steps = impressions.steps["append"]
    assert [step.watermark for step in steps[3:5]] == ["12:04", "12:11"]
    assert [step.emitted for step in steps[:4]] == [{}] * 4
    emitted = told(steps[4].emitted["stream"], ADS)
    assert {("12:00", 111, 2), ("12:00", 222, 2), ("12:00", 303, 1)} <= emitted
    batches = {row["batch"] for row in steps[4].emitted["stream"]}
    # The batch after the one with 12:21, which frees what it emits.
    assert batches == {sum(len(step.state) for step in steps[:5]) - 1}
    with_data, after = steps[4].state
    assert with_data - after == len(steps[4].emitted["stream"])


def test_in_update_mode_every_changed_window_comes_in_each_batch_that_changes_it(
    impressions: Worked,
) -> None:
    """A row is in two windows: two of its key, all with the count after the batch."""
    for step in impressions.steps["update"][:4]:
        (batch,) = {row["batch"] for row in step.emitted["stream"]}
        assert batch % 2 == 0 or len(step.state) == 1
        now = told(step.gold, ADS)
        assert told(step.emitted["stream"], ADS) <= now


def test_in_complete_mode_each_batch_emits_all_windows_that_are_open(impressions: Worked) -> None:
    for step in impressions.steps["complete"]:
        open_before = [r for r in step.gold if r["window_end"] > _close_before(step.result)]
        assert told(step.emitted["stream"], ADS) == told(open_before, ADS)
        assert step.state == (len(step.gold),)


def _close_before(result: Any) -> Any:
    from tests.kit.late_model import EPOCH, MILLISECOND

    return EPOCH + result.close_before_ms * MILLISECOND


@pytest.mark.long
def test_cat_2_is_emitted_at_12_10_and_removed_from_the_state(
    spark: SparkSession, words: Worked
) -> None:
    steps = words.steps["append"]
    assert [step.watermark for step in steps[2:4]] == ["12:03", "12:10"]
    rows = steps[3].emitted["stream"]
    assert ("12:00", "cat", 2) in told(rows, WORDS)
    (batch,) = {row["batch"] for row in rows}
    before, after = (state(spark, words.place, number) for number in (batch - 1, batch))
    assert ("12:00", "cat") in before
    assert ("12:00", "cat") not in after
    assert {start for start, _ in after} == {"12:05", "12:10", "12:15", "12:20"}
    assert (len(before), len(after)) == steps[3].state
    # Where the watermark equals the end, the window is closed.
    assert {clock(r["window_end"]) for r in rows} == {"12:05", "12:10"}


def state(spark: SparkSession, place: Place, batch: int) -> set[tuple[str, str]]:
    """Window and key of the state's rows after a batch of the append table."""
    reader = spark.read.format("statestore").option("batchId", batch)
    rows = reader.load(place.places.query_checkpoint("append", 1)).select("key.*").collect()
    return {(_minutes(row[0].start), row[1]) for row in rows}


def _minutes(instant: Any) -> str:
    return clock(instant.astimezone())


@pytest.mark.long
def test_a_newest_event_of_12_13_makes_the_watermark_12_03(words: Worked) -> None:
    assert [step.watermark for step in words.steps["update"]][2] == "12:03"


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_the_watermark_never_goes_back(impressions: Worked, words: Worked, mode: str) -> None:
    for worked in (impressions, words):
        marks = [step.result.watermark_after_ms for step in worked.steps[mode]]
        assert marks == sorted(marks)


def test_a_run_without_news_for_a_table_makes_no_commit_to_its_gold(impressions: Worked) -> None:
    """Trigger 4 changes open windows only, which append mode does not emit."""
    third, fourth = impressions.steps["append"][2:4]
    assert third.gold_version == fourth.gold_version


@pytest.mark.parametrize("mode", [pytest.param("complete", marks=pytest.mark.long), "update"])
def test_only_dates_with_differences_are_written_to_gold(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    table = clicks()["tables"]["per_10m"] | {"output_mode": mode, "accept_unbounded_state": True}
    if mode == "update":
        del table["accept_unbounded_state"]
    place = Place(tmp_path, clicks(tables={"t": table}, watermark={"delay": "3 days"}))
    days = [{"at": f"2026-07-0{day}T10:00:00Z", "key": "a", "amount": 1} for day in (1, 2)]
    place.land("1.json", days)
    succeed(spark, place, "one")
    before = files_by_date(DeltaTable(place.places.gold("t")))
    place.land("2.json", days[1:])
    result = succeed(spark, place, "two").tables["t"]
    gold = DeltaTable(place.places.gold("t"))
    after = files_by_date(gold)
    assert (result.published_windows, result.windows_changed) == (1, 2 if mode == "complete" else 1)
    assert before["2026-07-01"] == after["2026-07-01"]
    assert before["2026-07-02"] != after["2026-07-02"]
    version = gold.version()
    assert succeed(spark, place, "nothing new").tables["t"].published_windows == 0
    assert DeltaTable(place.places.gold("t")).version() == version


def test_a_run_that_died_before_append_mode_emitted_loses_no_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed after the commit of a data batch and before the batch without data, which the engine
    does not make up for while the source is idle."""
    table = clicks()["tables"]["per_10m"] | {"output_mode": "append"}
    place = Place(tmp_path, clicks(tables={"t": table}))
    place.land("1.json", [{"at": f"2026-07-01T10:{m}:00Z", "key": "a"} for m in ("01", "31")])
    no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(no_data, "false")
    try:
        succeed(spark, place, "died", hold=True)
    finally:
        spark.conf.set(no_data, "true")
    assert succeed(spark, place, "idle").tables["t"].close_after_ms == 0
    assert place.gold("t").num_rows == 0
    place.land("2.json", [{"at": "2026-07-01T11:31:00Z", "key": "a"}])
    succeed(spark, place, "next")
    sql = "SELECT strftime(window_start, '%H:%M'), events, status FROM gold ORDER BY ALL"
    assert query(sql, gold=place.gold("t")) == [("10:00", 1, "final"), ("10:30", 1, "final")]


def test_all_history_is_of_the_causes_that_the_page_names(impressions: Worked) -> None:
    causes = {mode: {r["cause"] for r in history(impressions.place, ADS, mode)} for mode in MODES}
    assert causes["append"] == {"stream", "late", "seal"}
    assert causes["update"] == causes["complete"] == {"stream", "late"}
    assert impressions.tail[0].scheduled_at == at(12, 50)
