"""Tables whose query keeps no state: what closes is computed from bronze, and gold is the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.end_to_end.generations import (
    changed,
    goes_on,
    is_right,
    migrated,
    rolled_back,
    run_three_times,
)
from tests.end_to_end.test_failing_measures import LANDED, Row, check, land, place_at
from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.streaming.audits import audit, event
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint
from tidemark.checkpoint.log import Checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import StateVerdict
from tidemark.gold.checkpoints import query_checkpoint
from tidemark.gold.state import gold_state
from tidemark.operators.touched import NEVER_MS
from tidemark.pipeline.instants import instant_of
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.upkeep.pipeline_compaction import plan_compactions
from tidemark.upkeep.state_check import check_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURES = {"events": "count(*)", "amount": "sum(amount)"}
OF_EACH: dict[str, Any] = {
    "windows": {"window": {"length": "10 minutes", "slide": "5 minutes"}},
    "sessions": {"window": {"session": "6 minutes"}},
    "updated": {"window": {"length": "10 minutes", "slide": "5 minutes"}, "output_mode": "update"},
}
STREAMS = ("engine", "recompute")
DAY_LATER = datetime(2026, 7, 2, 12, tzinfo=UTC)


def both_ways(root: Path) -> Place:
    """Two tables of each kind, which differ in who computes them."""
    tables = {
        f"{name}_{stream}": {
            "output_mode": "append",
            **of_kind,
            "group_by": ["key"],
            "measures": MEASURES,
            "stream": stream,
        }
        for name, of_kind in OF_EACH.items()
        for stream in STREAMS
    }
    watermark = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    return Place(root, clicks(tables=tables, watermark=watermark))


def closed_rows(place: Place, table: str, frontier_ms: int) -> list[dict[str, Any]]:
    columns = ("window_start", "window_end", "key", *MEASURES, "rows", "status", "revision")
    rows = [{name: row[name] for name in columns} for row in place.gold(table).to_pylist()]
    return sorted((row for row in rows if row["window_end"] <= instant_of(frontier_ms)), key=str)


def check_both(place: Place) -> int:
    """Both tables of a kind show the same closed rows, and the same open ones where they show all;
    how many are closed."""
    found = 0
    for name in OF_EACH:
        names = [f"{name}_{stream}" for stream in STREAMS]
        frontiers = [gold_state(DeltaTable(place.places.gold(one))).close_ms for one in names]
        assert frontiers[0] == frontiers[1]
        engine, recomputed = (closed_rows(place, one, frontiers[0]) for one in names)
        assert recomputed == engine
        found += len(engine)
    engine, recomputed = (closed_rows(place, f"updated_{one}", NEVER_MS) for one in STREAMS)
    assert recomputed == engine
    return found


@pytest.mark.long
def test_both_ways_of_a_table_show_the_same_closed_rows_after_each_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = both_ways(tmp_path)
    minutes: dict[str, Sequence[tuple[int, int, str | None]]] = {
        "first": [(10, 0, "a"), (10, 4, "a"), (10, 11, None), (10, 22, "b"), (10, 40, "a")],
        # Late into what is closed, two sessions that become one, and on.
        "late": [(10, 8, "a"), (10, 12, None), (10, 41, "b"), (10, 55, "b")],
        "killed": [(10, 9, "a"), (10, 23, "b"), (11, 20, "a"), (11, 24, "a")],
        "held": [(10, 23, "b"), (11, 22, "a"), (11, 50, None)],
        "after": [(11, 23, "a"), (11, 12, "b"), (12, 10, "b")],
    }
    shown = []
    for number, (name, rows) in enumerate(minutes.items()):
        place.land(f"{number}.json", [event(*row, amount=number + 1) for row in rows])
        if name == "killed":
            for when, point in (
                ("before", "windows of the stream"),
                ("after", "windows of the stream"),
                ("after", "recomputed windows"),
                ("before", "gold"),
            ):
                with killed(when, point):  # type: ignore[arg-type]
                    assert run_warm(spark, place, f"{when} {point}").error is not None
        if name == "held":
            succeed(spark, place, name, hold=True)
            continue
        succeed(spark, place, name)
        shown.append(check_both(place))
    assert shown == sorted(set(shown))
    succeed(spark, place, "idle", scheduled=DAY_LATER)
    sealed = check_both(place)
    assert sealed > shown[-1]
    place.land("late.json", [event(12, 8, "b"), event(10, 0, "c")])
    succeed(spark, place, "behind the seal", scheduled=DAY_LATER)
    assert check_both(place) > sealed
    causes = {
        table: {row["cause"] for row in place.changes(table).to_pylist()}
        for table in place.pipeline.tables
    }
    assert causes["windows_engine"] == {"stream", "late", "seal"}
    assert causes["windows_recompute"] == {"closed", "late", "seal"}
    assert causes["updated_recompute"] == {"open", "late"}
    # Rows are late to both, and as many.
    counts = ("assigned", "late_rows", "partly_late_rows", "late_assigned", "late_windows")
    late = {
        line["table"]: [line[name] for name in counts]
        for line in place.table(place.places.ledger).to_pylist()
        if (line["kind"], line["run"]) == ("stream", "late") and line["assigned"]
    }
    assert late["updated_engine"] == late["updated_recompute"] == [8, 2, 0, 4, 4]
    assert audit(spark, place).outcome == "equal"


@pytest.mark.long
@pytest.mark.parametrize("mode", ["append", "update"])
@pytest.mark.parametrize(("before", "after"), [STREAMS, STREAMS[::-1]])
def test_another_stream_is_a_new_generation_and_gold_is_right_behind_it_and_behind_the_way_back(
    spark: SparkSession, tmp_path: Path, before: str, after: str, mode: str
) -> None:
    # The engine's is what a table has that does not say.
    of_streams: dict[str, dict[str, Any]] = {"engine": {}, "recompute": {"stream": "recompute"}}
    place = run_three_times(spark, tmp_path, mode, "memory", **of_streams[before])
    is_right(spark, place)
    other = changed(place, **of_streams[after])
    refused = run_warm(spark, other).error
    assert refused is not None
    assert (refused.type, refused.retry_can_help) == ("PipelineChanged", False)
    assert f"stream: {before} → {after}" in refused.message
    migrated(spark, other)
    is_right(spark, other)
    goes_on(spark, other)
    rolled_back(other)
    succeed(spark, place, "behind")
    is_right(spark, place)


@pytest.fixture(scope="module", params=["append", "update"])
def ran(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Place:
    """Three runs of a table that is recomputed."""
    root = tmp_path_factory.mktemp("recomputed") / "root"
    place = run_three_times(spark, root, request.param, "memory", stream="recompute")
    place.keep()
    return place


def mode_of(place: Place) -> str:
    return place.pipeline.tables["per_10m"].output_mode


def checkpoint_of(place: Place) -> Checkpoint:
    return query_checkpoint(place.warehouse, "per_10m", 1)


def test_its_query_has_no_state_and_one_batch_for_each_run_that_moves_the_watermark(
    ran: Place,
) -> None:
    place = ran.again()
    checkpoint = checkpoint_of(place)
    assert not [file for file in checkpoint.names() if file.startswith("state/")]
    assert checkpoint.batches("commits") == (0, 1, 2)
    # The newest event is of 11:03.
    newest = instant_of(checkpoint.next_watermark_ms(2)) + timedelta(minutes=10)
    assert newest.strftime("%H:%M") == "11:03"
    state = gold_state(DeltaTable(place.places.gold("per_10m")))
    assert state.close_ms == checkpoint.next_watermark_ms(2)
    assert isinstance(run_preflight(place.run("look")), NothingNew)


def test_upkeep_takes_a_checkpoint_without_state_for_whole(ran: Place) -> None:
    place, now = ran.again(), datetime.now(UTC)
    facts = read_checkpoint(checkpoint_of(place))
    known = QueryFacts(output_mode=mode_of(place), keeps_state=False)
    assert judge_checkpoint(facts, now, known).verdict is CheckpointVerdict.CLEAN_END
    # Of a query of which nothing is known, nobody can tell whether the state was lost.
    assert judge_checkpoint(facts, now).verdict is CheckpointVerdict.UNKNOWN
    checked = check_pipeline(place.pipeline, place.settings)
    assert {one.state.verdict for one in checked if one.state} == {StateVerdict.HEALTHY}
    planned = plan_compactions(place.pipeline, place.warehouse, now, every=True)
    assert [one.plan.refused for one in planned if one.plan] == [None, None]


def test_what_a_held_and_a_killed_run_closed_is_spark_s_to_do_until_it_is_published(
    spark: SparkSession, ran: Place
) -> None:
    place, opened = ran.again(), mode_of(ran) == "update"
    place.land("4.json", [event(12, 0, "a", 1), event(11, 31, "a", 2)])
    succeed(spark, place, "held", hold=True)
    found = run_preflight(place.run("look"))
    assert isinstance(found, SparkNeeded)
    assert (
        "2 open windows have new rows, and are not published yet"
        if opened
        else "what closed up to 2026-07-01T11:50:00Z is to be computed from bronze"
    ) in found.because
    appended = place.changes().num_rows
    with killed("before", "gold"):
        assert run_warm(spark, place, "killed").error is not None
    assert isinstance(run_preflight(place.run("look")), SparkNeeded)
    # A repeat finds the same rows, and appends none.
    assert place.changes().num_rows == appended
    # Of a window that both have computed: the frontier is the same, and yet it is another line.
    place.land("5.json", [event(11, 31, "a", 7)])
    succeed(spark, place, "published")
    is_right(spark, place)
    lines = place.table(place.places.ledger).to_pylist()
    computed: dict[str, int] = {}
    for line in lines:
        if line["kind"] == ("open" if opened else "closed") and not line["run"].startswith("run-"):
            computed[line["run"]] = line["published"]
    assert computed == {"held": 2, "published": 3} if opened else {"held": 5, "published": 6}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["append", "update"])
def test_windows_that_fail_are_verdicts_of_their_own(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    place, rows = place_at(tmp_path, mode), list[Row]()
    (table,) = place.content["tables"].values()
    table["stream"] = "recompute"
    for number, landed in enumerate(LANDED):
        land(place, f"{number}.json", landed)
        rows += landed
        succeed(spark, place, f"run-{number}")
        check(spark, place, rows)
    succeed(spark, place, "idle", scheduled=DAY_LATER)
    check(spark, place, rows)
