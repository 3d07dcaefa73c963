"""A pipeline's folder and the `ops` in it that came back from backups of different moments.

Runs stop until the ledger is built anew; then they go on, and end with the ledger that they would
have had if both had come back together.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.end_to_end.generations import migrate
from tests.end_to_end.test_losses import digests
from tests.kit.killed import killed
from tests.kit.running import Place, clicks, query, run_warm, succeed
from tests.streaming.audits import audit
from tidemark.cli.main import app
from tidemark.ledger.ledger import check_ledger
from tidemark.runs.losses import find_losses
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST = "3"


def rows(number: int) -> list[dict[str, Any] | str]:
    """A file of one hour, of its own number of rows, with one of the hour before, which is late,
    and rejected lines."""
    times = [f"2026-07-01T{9 + number:02}:{minute:02}:00Z" for minute in range(0, 60, 19 - number)]
    late = f"2026-07-01T{8 + number:02}:05:00Z"
    good = [{"at": at, "key": "a", "amount": number} for at in (*times, late)]
    return [*good, *("not JSON" for _ in range(number))]


@dataclass(frozen=True)
class History:
    """A pipeline, and copies of its folder after each of its runs, the third of which was killed at
    first. Of its source one file more is there than any of them has read."""

    place: Place
    copies: Path

    def keep(self, state: str) -> None:
        shutil.copytree(self.folder, self.copies / state)

    def back(self, folder: str, ops: str) -> Place:
        shutil.rmtree(self.folder)
        shutil.copytree(self.copies / folder, self.folder)
        shutil.rmtree(self.folder / "ops")
        shutil.copytree(self.copies / ops / "ops", self.folder / "ops")
        return self.place

    @property
    def folder(self) -> Path:
        return Path(self.place.places.folder)


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("apart")
    made = History(Place(folder / "root", clicks()), folder / "copies")
    made.place.write_file()
    for number in (1, 2):
        made.place.land(f"{number}.json", rows(number))
        succeed(spark, made.place, f"run{number}")
        made.keep(str(number))
    made.place.land("3.json", rows(3))
    for point in ("accepted rows", "ledger"):
        with killed("after" if point == "accepted rows" else "before", point):
            assert run_warm(spark, made.place, "killed").error is not None
        made.keep(f"killed at {point}")
    succeed(spark, made.place, "run3")
    made.keep(LAST)
    made.place.land("4.json", rows(4))
    return made


def lines(place: Place) -> Counter[tuple[Any, ...]]:
    """What each line counts; who wrote it, and what bronze held then, a rebuild does not know."""
    names = (
        'kind, "table", batch, read, accepted, rejected, reasons, assigned, late_rows, '
        "late_assigned, emitted, emitted_before, published, "
        "CASE WHEN batch IS NOT NULL THEN difference END"
    )
    ledger = place.table(place.places.ledger)
    return Counter(query(f"SELECT {names} FROM l", l=ledger))


def goes_on(spark: SparkSession, place: Place, run_id: str) -> Counter[tuple[Any, ...]]:
    """The ledger after a run that nothing stops, which has all that landed."""
    assert find_losses(place.pipeline, place.warehouse) == ()
    succeed(spark, place, run_id)
    assert audit(spark, place).outcome == "equal"
    check_ledger(place.warehouse.ledger, place.name)
    sums = "SELECT sum(read)::INT, sum(rejected)::INT FROM l WHERE kind = 'ingest'"
    landed = [line for number in (1, 2, 3, 4) for line in rows(number)]
    counted = query(sums, l=place.table(place.places.ledger))
    assert counted == [(len(landed), landed.count("not JSON"))]
    return lines(place)


KILLED = "killed at accepted rows"
FOLDER, LEDGER = "folder is older than the ledger", "ledger is older than the rest of the folder"
APART = [
    ("1", LAST, FOLDER),
    (KILLED, LAST, FOLDER),
    (LAST, "2", LEDGER),
    pytest.param("2", LAST, FOLDER, marks=pytest.mark.long),
    pytest.param(LAST, "1", LEDGER, marks=pytest.mark.long),
    pytest.param(KILLED, "1", LEDGER, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("folder", "ops", "told"), APART)
def test_a_ledger_of_another_moment_stops_runs_until_it_is_built_anew(
    history: History, spark: SparkSession, folder: str, ops: str, told: str
) -> None:
    together = goes_on(spark, history.back(folder, folder), "together")
    place = history.back(folder, ops)
    before = digests(place)
    stopped = run_warm(spark, place, "stopped").error
    assert stopped is not None
    assert (stopped.type, stopped.retry_can_help) == ("TableLost", False)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state is PipelineState.STOPPED
    for text in (stopped.message, status.next_step):
        assert told in text
        assert "`tidemark ledger rebuild clicks`" in text
    assert digests(place) == before
    rebuilt = CliRunner().invoke(app, ["ledger", "rebuild", "clicks"], env=place.variables)
    assert rebuilt.exit_code == 0, rebuilt.output
    assert goes_on(spark, place, "next") == together


@pytest.mark.second
def test_what_a_killed_run_left_stops_nothing_once_a_migration_has_published_it(
    history: History, spark: SparkSession
) -> None:
    """A generation is computed from all of bronze, also from a batch whose lines are the next
    run's to write."""
    place = history.back("killed at ledger", "killed at ledger")
    assert migrate(spark, place, rebuild=True).error is None
    kept = history.copies / "migrated"
    shutil.copytree(place.root, kept)
    goes_on(spark, place, "of the generation")
    shutil.rmtree(place.root)
    shutil.copytree(kept, place.root)
    asked = ["migrate", "clicks", "--rollback", "per_10m", "--reason", "too soon", "--by", "Ada"]
    back = CliRunner().invoke(app, asked, env=place.variables)
    assert back.exit_code == 0, back.output
    runs = place.table(place.places.runs).to_pylist()
    (act,) = (run for run in runs if run["trigger"] == "rollback")
    assert (act["by"], act["reason"]) == ("Ada", "too soon")
    goes_on(spark, place, "of the former generation")
