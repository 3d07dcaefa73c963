"""A migration computes while runs go on with the former generation, and catches up with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

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
)
from tests.kit.running import run_warm, succeed
from tests.streaming.audits import accept_by_hand, audit, event, gold_of
from tidemark import commit_point
from tidemark.gold.state import gold_state
from tidemark.runs.losses import find_losses
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.streaming.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Meanwhile(Progress):
    """Does something once the windows are computed, before the lease is taken."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__("clicks", out=StringIO())
        self.act = act

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with super().stage(name):
            yield
        if name == "compute":
            self.act()


CHANGES: dict[str, dict[str, Any]] = {
    "a new measure": {"measures": {**WINDOW["measures"], "largest": "max(amount)"}},
    "another window": {"window": {"length": "20 minutes", "slide": "10 minutes"}},
    "a key less": {"group_by": []},
}


@pytest.mark.long
@pytest.mark.parametrize("change", first_of(CHANGES))
@pytest.mark.parametrize("mode", first_of(MODES))
def test_rows_that_come_while_windows_are_computed_are_caught_up(
    spark: SparkSession, three_runs: ThreeRuns, mode: str, change: str
) -> None:
    """Late ones, such as open windows get, new windows, windows that close; a held run."""
    place = three_runs(mode)
    new = changed(place, **CHANGES[change])

    def runs() -> None:
        late, opened, newest = event(10, 12, "a", 50), event(11, 4, "b", 3), event(11, 35, "a", 4)
        place.land("between.json", [late, opened, newest])
        succeed(spark, place, "between")
        place.land("held.json", [event(10, 13, "new", 1), event(11, 36, "a", 2)])
        assert run_warm(spark, place, "held", hold=True).error is None

    before = gold_state(gold_of(place)).close_ms
    result = migrate(spark, new, progress=Meanwhile(runs))
    assert (result.error, result.generation) == (None, 2)
    assert gold_state(gold_of(place)).close_ms > before
    is_right(spark, new)
    goes_on(spark, new)


@pytest.mark.long
def test_another_migration_that_came_first_is_enough(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    new = changed(three_runs("update"), **CHANGES["a new measure"])
    first = Meanwhile(lambda: migrated(spark, new, "first"))
    result = migrate(spark, new, "second", progress=first)
    assert (result.error, result.generation) == (None, None)
    assert gold_state(gold_of(new)).generation == 2
    is_right(spark, new)


@pytest.mark.long
def test_rows_that_somebody_changed_meanwhile_and_accepted_are_computed_by_what_they_are(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    new = changed(place, **CHANGES["a new measure"])

    def mend() -> None:
        place.warehouse.bronze.existing().update(predicate="amount = 22", updates={"amount": "23"})
        accept_by_hand(place)

    assert migrate(spark, new, progress=Meanwhile(mend)).error is None
    mended = [row for row in new.gold().to_pylist() if row["window_start"].minute == 20]
    assert {row["amount"] for row in mended} == {23}
    is_right(spark, new)
    goes_on(spark, new)


@pytest.mark.long
def test_a_dry_run_works_beside_a_run(spark: SparkSession, three_runs: ThreeRuns) -> None:
    place = three_runs("update")
    new = changed(place, **CHANGES["a new measure"])
    with pipeline_lease(place.pipeline, place.settings, "other", "run"):
        result = migrate(spark, new, dry_run=True)
    assert (result.error, result.dry_run) == (None, True)


@pytest.mark.long
def test_rows_that_bronze_lost_meanwhile_stop_a_migration(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    place = three_runs("update")
    new = changed(place, **CHANGES["a new measure"])
    delete = Meanwhile(lambda: place.warehouse.bronze.existing().delete("amount = 22"))
    result = migrate(spark, new, progress=delete)
    assert result.error is not None
    assert result.generation is None
    assert "bronze" in result.error.message
    assert gold_state(gold_of(place)).generation == 1


@pytest.mark.long
def test_rows_that_went_by_hand_while_a_migration_was_written_stop_it(
    spark: SparkSession, three_runs: ThreeRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was computed and balanced by then still holds them."""
    place = three_runs("update")
    new = changed(place, **CHANGES["a new measure"])

    def reached(point: str, moment: str, _: tuple[object, ...]) -> None:
        if (point, moment) == ("windows of a generation", "before"):
            DeltaTable(place.places.bronze).delete("amount = 22")

    monkeypatch.setattr(commit_point, "on_reach", reached)
    result = migrate(spark, new)
    monkeypatch.setattr(commit_point, "on_reach", None)
    assert result.error is not None
    assert result.error.type == "TableLost"
    assert "while per_10m was computed" in result.error.message
    assert gold_state(gold_of(place)).generation == 1
    (loss,) = find_losses(place.pipeline, place.warehouse)
    assert loss.by_hand
    accept_by_hand(place)
    migrated(spark, new, "again")
    new.land("4.json", [event(10, 23, "a", 1_000), event(11, 25, "a", 1)])
    succeed(spark, new, "next")
    assert audit(spark, new).outcome == "equal"


def test_a_migration_waits_for_the_run_that_holds_the_lease(
    spark: SparkSession, three_runs: ThreeRuns
) -> None:
    from threading import Event, Thread

    place = three_runs("update")
    new = changed(place, **CHANGES["a new measure"])
    held, release = Event(), Event()

    def hold() -> None:
        with pipeline_lease(place.pipeline, place.settings, "other", "run"):
            held.set()
            release.wait(60)

    holder = Thread(target=hold)
    progress = Meanwhile(lambda: (holder.start(), held.wait(60)))
    said = progress.out

    class Releasing(StringIO):
        def write(self, text: str) -> int:
            if "waits for its end" in text:
                release.set()
            return said.write(text)

    progress.out = Releasing()
    result = migrate(spark, new, progress=progress)
    holder.join(timedelta(minutes=1).total_seconds())
    assert (result.error, result.generation) == (None, 2)
    is_right(spark, new)
