"""Where the engine's session windows are wrong, or surprise: gold is right after each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.kit.running import Place, accept_changed_file, clicks, succeed
from tests.operators.contract.kinds import (
    DAY,
    KINDS,
    MINUTE,
    TABLE,
    KindPlace,
    Known,
    Row,
    as_json,
    place_of,
)
from tests.operators.contract.test_operator_kinds import check_gold
from tests.operators.session_stories import CLOCK, SIDE_BY_SIDE, STORIES, Step, Story
from tests.streaming.audits import audit
from tidemark.gold import to_compute
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.pipeline.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

in_append, BESIDE = KINDS["sessions-append"], KINDS["windows-update"]
each_story = pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, id=story.name, marks=() if story is SIDE_BY_SIDE else pytest.mark.long)
        for story in STORIES
    ],
)
def test_gold_is_right_after_each_run_whatever_the_engine_emitted(
    spark: SparkSession, tmp_path: Path, story: Story
) -> None:
    place, rows = place_of(tmp_path, in_append), list[Row]()
    for number, step in enumerate(story.steps):
        rows += step.rows
        run(spark, place, number, step)
        assert gold(place) == step.gold, f"run {number}"
        if not step.hold:
            check_gold(place, rows)
    assert emitted(place) == story.emitted


@pytest.mark.long
@each_story
def test_without_the_check_of_what_is_emitted_gold_is_wrong_where_a_story_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Story
) -> None:
    """So the tests above show what the check is there for. What late rows touch is computed again
    all the same, as it is of windows."""
    monkeypatch.setattr(to_compute, "_unlike_bronze", lambda *given: given[4])
    place, rows, wrong = place_of(tmp_path, in_append), list[Row](), 0
    for number, step in enumerate(story.steps):
        rows += step.rows
        run(spark, place, number, step)
        wrong += not step.hold and not is_right(place, rows)
    assert bool(wrong) == story.wrong_alone


def is_right(place: KindPlace, rows: Sequence[Row]) -> bool:
    try:
        check_gold(place, rows)
    except AssertionError:
        return False
    return True


@dataclass
class TwoTables(KindPlace):
    """Sessions, and beside them windows of the same rows."""

    @property
    def pipeline(self) -> Pipeline:
        tables = {TABLE: self.kind.table, "windows": BESIDE.table}
        return super().pipeline.model_copy(update={"tables": tables})

    def windows_held(self) -> Known:
        operator = BESIDE.operator
        return {
            tuple(row[name] for name in operator.identity): tuple(
                row[name] for name in operator.values
            )
            for row in self.gold("windows").to_pylist()
        }


@pytest.mark.long
def test_windows_beside_sessions_in_one_pipeline_are_right_after_each_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, rows = TwoTables(tmp_path, kind=in_append), list[Row]()
    (story,) = (one for one in STORIES if one.name.startswith("a late row that joins"))
    for number, step in enumerate(story.steps):
        rows += step.rows
        run(spark, place, number, step)
        assert gold(place) == step.gold
        assert place.windows_held() == BESIDE.model(rows)
    lines = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    assert {line.table for line in lines if line.kind == "stream"} == {TABLE, "windows"}
    assert [line for line in lines if line.difference] == []
    assert audit(spark, place).outcome == "equal"


# Times are by the wall clock here, as what is too old is.
NOW = datetime.now(UTC)
DAYS_AGO = tuple(10 - half / 2 for half in range(16))


def of_days_ago(days: float, key: str = "a") -> dict[str, Any]:
    return {"at": (NOW - timedelta(days=days)).isoformat(), "key": key, "amount": 1}


def kept(days: int) -> dict[str, Any]:
    visits = {"window": {"session": "1 day"}, "group_by": ["key"], "output_mode": "append"}
    tables = {"visits": visits | {"measures": {"events": "count(*)"}}}
    return clicks(keep=f"{days} days", tables=tables)


@pytest.mark.long
def test_a_session_that_is_longer_than_keep_stays_whole_and_is_corrected(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, kept(40))
    first = [of_days_ago(20, "old"), *map(of_days_ago, DAYS_AGO), of_days_ago(0, CLOCK)]
    place.land("1.json", first)
    succeed(spark, place, "first")
    assert visits(place) == {"old": (20, 1, "final", 0), "a": (10, 16, "final", 0)}
    place.content = kept(3)
    assert accept_changed_file(place) == ["keep"]
    place.land("2.json", [of_days_ago(-0.001, CLOCK)])
    succeed(spark, place, "second")
    held = {part["_event_date"] for part in DeltaTable(place.places.bronze).partitions()}
    dates = {str((NOW - timedelta(days=days)).date()) for days in DAYS_AGO}
    assert dates <= held
    assert str((NOW - timedelta(days=20)).date()) not in held
    # One is not too old, and the session that it lies in began before what is kept.
    place.land("3.json", [of_days_ago(2.7), of_days_ago(3.2)])
    result = succeed(spark, place, "third")
    assert result.rows.rejected == {"too old": 1}
    assert visits(place) == {"old": (20, 1, "final", 0), "a": (10, 17, "corrected", 1)}
    assert audit(spark, place).outcome == "equal"


def visits(place: Place) -> dict[str, tuple[float, int, str, int]]:
    """By key: when it began, in days before now; rows, status, revision."""
    return {
        row["key"]: (
            (NOW - row["window_start"]) / timedelta(days=1),
            row["rows"],
            row["status"],
            row["revision"],
        )
        for row in place.gold("visits").to_pylist()
    }


def run(spark: SparkSession, place: KindPlace, number: int, step: Step) -> None:
    place.land(f"{number}.json", as_json(step.rows))
    succeed(spark, place, f"run-{number}", hold=step.hold)


def gold(place: KindPlace) -> Mapping[tuple[str | None, float, float], tuple[int, str, int]]:
    """As a story tells it."""
    return {
        session(row): (row["rows"], row["status"], row["revision"])
        for row in place.gold(TABLE).to_pylist()
        if row["key"] != CLOCK
    }


def emitted(place: KindPlace) -> set[tuple[str | None, float, float, int]]:
    rows = place.changes(TABLE).to_pylist()
    return {
        (*session(row), row["rows"])
        for row in rows
        if row["cause"] == "stream" and row["key"] != CLOCK
    }


def session(row: Mapping[str, Any]) -> tuple[str | None, float, float]:
    start, end = ((row[name] - DAY) / MINUTE for name in ("window_start", "window_end"))
    return row["key"], start, end
