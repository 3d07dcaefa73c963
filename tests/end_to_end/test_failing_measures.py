"""A measure that fails is a verdict on its window: gold has the others, and the account holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.streaming.audits import accept_by_hand, audit, backfill_warm
from tidemark.gold.state import gold_state
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.instants import epoch_ms
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.streaming.run import recomputed_singly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("update", "append", "complete")
DAY = datetime(2026, 7, 1, tzinfo=UTC)
LENGTH = timedelta(minutes=10)
LARGEST = 2**63 - 1
MEASURES = {
    # Fails when it is evaluated, on a row, and while it is put together.
    "share": "sum(amount) / sum(size)",
    "inverse": "sum(100 / amount)",
    "total": "sum(size)",
}

Row = dict[str, Any]
Window = tuple[datetime, str | None]


def place_at(folder: Path, mode: str, measures: Mapping[str, str] = MEASURES) -> Place:
    source = clicks()["source"]
    columns = source["columns"] | {"size": "long"}
    table = {
        "window": {"length": "10 minutes"},
        "group_by": ["key"],
        "measures": dict(measures),
        "output_mode": mode,
        "accept_unbounded_state": mode == "complete",
    }
    content = clicks(source=source | {"columns": columns}, tables={"per_10m": table})
    content["watermark"] = {"delay": "10 minutes", "seal_after_idle": "1 hour"}
    return Place(folder, content)


def row(minute: float, key: str | None = "a", amount: int = 4, size: int = 2) -> Row:
    return {"at": DAY + timedelta(minutes=minute), "key": key, "amount": amount, "size": size}


def land(place: Place, name: str, rows: Sequence[Row]) -> None:
    place.land(name, [{**one, "at": one["at"].isoformat()} for one in rows])


def by_window(rows: Sequence[Row]) -> dict[Window, list[Row]]:
    found: defaultdict[Window, list[Row]] = defaultdict(list)
    for one in rows:
        start = DAY + (one["at"] - DAY) // LENGTH * LENGTH
        found[start, one["key"]].append(one)
    return found


def fails(rows: Sequence[Row]) -> bool:
    size = sum(one["size"] for one in rows)
    return size == 0 or size > LARGEST or any(one["amount"] == 0 for one in rows)


def expected(rows: Sequence[Row]) -> dict[Window, tuple[Any, ...]]:
    return {
        window: (
            pytest.approx(sum(one["amount"] for one in held) / sum(one["size"] for one in held)),
            pytest.approx(sum(100 / one["amount"] for one in held)),
            sum(one["size"] for one in held),
            len(held),
        )
        for window, held in by_window(rows).items()
        if not fails(held)
    }


def shown(place: Place) -> dict[Window, tuple[Any, ...]]:
    return {
        (one["window_start"], one["key"]): tuple(one[name] for name in (*MEASURES, "rows"))
        for one in place.gold().to_pylist()
    }


def appends(place: Place) -> bool:
    return place.pipeline.tables["per_10m"].output_mode == "append"


def check_gold(place: Place, rows: Sequence[Row]) -> set[Window]:
    """Gold is the batch aggregate where that is defined; what fails, as far as it shows closed
    windows only."""
    close_ms = gold_state(DeltaTable(place.places.gold("per_10m"))).close_ms
    whole, failing = expected(rows), {w for w, held in by_window(rows).items() if fails(held)}
    if appends(place):
        closed = {w for w in by_window(rows) if epoch_ms(w[0]) + 600_000 <= close_ms}
        whole = {window: values for window, values in whole.items() if window in closed}
        failing &= closed
    assert shown(place) == whole
    return failing


def check(spark: SparkSession, place: Place, rows: Sequence[Row]) -> None:
    """Audit, ledger and status agree with gold."""
    failing = check_gold(place, rows)
    found = audit(spark, place)
    assert found.outcome == "equal"
    assert found.tables["per_10m"].found.failing == len(failing)
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    assert [line for line in lines if line.difference] == []
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.problem is None, status.problem
    # Of open windows too, which append mode does not show yet.
    told = status.tables[0].failing.windows
    assert status.state is (PipelineState.FAILING if told else PipelineState.WELL)
    assert told >= len(failing) if appends(place) else told == len(failing)


GOOD = [row(minute, key) for minute in (1, 6, 12) for key in ("a", "b", None)]
LANDED = [
    GOOD,
    # On a row, in the sum, when it is evaluated; others beside them.
    [
        row(13, "a", amount=0),
        row(13, None, amount=0),
        row(14, "b", size=LARGEST),
        row(21, "c", size=0),
        row(15, "b"),
        row(22, "d"),
    ],
    # More for those that fail; one of them is mended by it. All of these close; a late row.
    [
        row(16, "a"),
        row(21, "c", size=5),
        row(23, "d"),
        row(24, "e", amount=0),
        row(90, "z"),
        row(3, "a"),
    ],
    # Late rows that fail, on the row and in the sum, and one for a window that failed.
    [row(7, "b", amount=0), row(7, None, size=LARGEST), row(13, "a"), row(95, "z")],
]


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_windows_that_fail_are_verdicts_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    place, rows = place_at(tmp_path, mode), []
    for number, new in enumerate(LANDED):
        land(place, f"{number}.json", new)
        rows += new
        succeed(spark, place, f"run-{number}")
        check_gold(place, rows)
    verdicts = [one for one in place.changes().to_pylist() if one["_failure"]]
    said = {one["_failure"].partition("\n")[0] for one in verdicts}
    assert any("[DIVIDE_BY_ZERO]" in one for one in said)
    assert any("[ARITHMETIC_OVERFLOW]" in one for one in said)
    aside = {(one["window_start"], one["key"]) for one in verdicts if one["cause"] == "failed"}
    assert (DAY + timedelta(minutes=10), None) in aside
    # An idle source's seal brings what is left.
    succeed(spark, place, "sealed", scheduled=DAY + timedelta(days=2))
    check(spark, place, rows)


@pytest.mark.parametrize(
    ("when", "point"),
    [
        pytest.param("before", "recomputed windows", marks=pytest.mark.long),
        pytest.param("after", "recomputed windows", marks=pytest.mark.second),
        pytest.param("before", "windows of the stream", marks=pytest.mark.long),
        pytest.param("after", "windows of the stream", marks=pytest.mark.long),
        pytest.param("before", "gold", marks=pytest.mark.long),
    ],
)
def test_a_run_that_dies_while_it_sets_windows_aside_is_ended_by_the_next(
    spark: SparkSession, tmp_path: Path, when: Any, point: str
) -> None:
    place = place_at(tmp_path, "update")
    land(place, "0.json", GOOD)
    succeed(spark, place, "first")
    land(place, "1.json", LANDED[1])
    with killed(when, point):
        assert run_warm(spark, place, "dead").error is not None
    succeed(spark, place, "again")
    check(spark, place, [*GOOD, *LANDED[1]])
    aside = [one for one in place.changes().to_pylist() if one["cause"] == "failed"]
    assert len(aside) == len({(one["window_start"], one["key"]) for one in aside}) == 3


@pytest.mark.long
def test_a_run_without_spark_leaves_what_is_set_aside_to_one_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path, "append")
    rows = [*GOOD, row(13, "a", amount=0), row(90, "z")]
    land(place, "0.json", GOOD)
    succeed(spark, place, "first")
    land(place, "1.json", rows[len(GOOD) :])
    with killed("before", "ledger"):
        assert run_warm(spark, place, "dead").error is not None
    assert isinstance(run_preflight(place.run("idle")), SparkNeeded)
    succeed(spark, place, "again")
    check(spark, place, rows)
    assert isinstance(run_preflight(place.run("idle")), NothingNew)


def test_a_measure_that_fails_everywhere_stops_the_run_and_no_retry_helps(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recomputed_singly, "MOST_FAILING", 2)
    place = place_at(tmp_path, "update")
    land(place, "0.json", GOOD)
    succeed(spark, place, "first")
    before = place.changes()
    land(place, "1.json", [row(minute * 10, str(minute), amount=0) for minute in range(5)])
    error = run_warm(spark, place).error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("ExpressionFailed", False)
    assert error.message.startswith("[DIVIDE_BY_ZERO]")
    assert "More than 2 windows fail like this" in error.message
    assert place.changes().num_rows == before.num_rows


@pytest.mark.long
def test_a_failing_window_is_mended_by_correcting_bronze_and_a_backfill(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_at(tmp_path, "update")
    rows = [*GOOD, row(13, "a", amount=0), row(25, "alone", amount=0), row(60, "z")]
    land(place, "0.json", GOOD)
    succeed(spark, place, "first")
    land(place, "1.json", rows[len(GOOD) :])
    succeed(spark, place, "fails")
    DeltaTable(place.places.bronze).delete("amount = 0")
    accept_by_hand(place)
    assert audit(spark, place).outcome == "different"
    result = backfill_warm(spark, place, DAY, DAY + timedelta(minutes=40))
    assert result.error is None, result.error
    assert shown(place) == expected([one for one in rows if one["amount"]])
    # Also of the window that is gone with its only row.
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.tables[0].failing.windows == 0
    land(place, "2.json", [row(61, "z")])
    succeed(spark, place, "next")
