"""Run, status and doctor judge alike: of damage, of `ops` that was removed, of a root that is not
there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from tests.checkpoint.damages import cut, emptied, removed
from tests.kit.running import Place, clicks, succeed
from tidemark.cli.exit_codes import STATES
from tidemark.cli.main import app
from tidemark.errors import TableLost
from tidemark.ledger.report import read_ledger
from tidemark.runs.losses import check_losses
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.runs.publish_held import publish_and_record
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.runs.without_spark import run_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Act = Callable[[Path], None]
INGEST, QUERY = "ingest", "per_10m/1"
ROW = '{{"at": "2026-01-01T1{n}:01:00Z", "key": "a", "amount": 1}}'
# The last batch of each is 1 and 3: every other one of the table's query has no data.
DAMAGES: dict[str, tuple[str, Act]] = {
    "commit of the ingest empty": (INGEST, emptied("commits/1")),
    "commit of the ingest cut": (INGEST, cut("commits/1")),
    "commit of the query empty": (QUERY, emptied("commits/3")),
    "offsets of the ingest empty": (INGEST, emptied("offsets/1")),
    "offsets of the query cut": (QUERY, cut("offsets/3")),
    "offsets before the last gone": (QUERY, removed("offsets/2")),
    "metadata of the ingest empty": (INGEST, emptied("metadata")),
    "metadata of the query gone": (QUERY, removed("metadata")),
    "newest list of the source gone": (INGEST, removed("sources/0/1")),
    "newest list of the source empty": (INGEST, emptied("sources/0/1")),
    "all offsets gone": (INGEST, removed("offsets")),
    "state empty": (QUERY, emptied("state/0/0/*.delta")),
    "state gone": (QUERY, removed("state/0/0")),
}


@pytest.fixture(scope="module")
def pristine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("pristine"), clicks())
    for number in range(2):
        place.land(f"{number}.json", [ROW.format(n=number)])
        succeed(spark, place, f"run {number}")
    place.keep()
    return place


@pytest.fixture
def place(pristine: Place) -> Place:
    return pristine.again()


def command(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)


def test_a_checkpoint_that_is_whole_stops_nothing(place: Place) -> None:
    assert isinstance(run_preflight(place.run("second")), NothingNew)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state is PipelineState.WELL, status.next_step


@pytest.mark.parametrize("damage", DAMAGES)
def test_run_status_and_doctor_judge_alike(place: Place, damage: str) -> None:
    checkpoint, act = DAMAGES[damage]
    folder = Path(place.places.checkpoints, checkpoint)
    act(folder)
    with pytest.raises(TableLost, match="is damaged: ") as stopped:
        run_preflight(place.run("second"))
    assert str(folder) in str(stopped.value)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert (status.state, str(folder) in status.next_step) == (PipelineState.STOPPED, True)
    asked = command(place, "status", "clicks")
    assert asked.exit_code == STATES[PipelineState.STOPPED], asked.output
    doctor = command(place, "checkpoint", "doctor", "clicks")
    assert "damaged" in doctor.output
    assert doctor.exit_code


def test_a_damaged_checkpoint_of_a_table_does_not_keep_it_from_being_rebuilt(place: Place) -> None:
    emptied("commits/3")(Path(place.places.query_checkpoint("per_10m", 1)))
    with pytest.raises(TableLost, match="migrate clicks --rebuild per_10m"):
        check_losses(place.pipeline, place.warehouse)
    check_losses(place.pipeline, place.warehouse, rebuilt="per_10m")


def totals(place: Place) -> list[tuple[str, ...]]:
    report = read_ledger(place.warehouse.ledger, "clicks", 9)
    assert report is not None
    assert "0 that do not balance" in report.verdict
    return [tuple(map(str, row)) for row in report.totals]


def test_ops_that_was_removed_is_told_and_the_next_run_builds_the_ledger_anew(place: Place) -> None:
    before = totals(place)
    shutil.rmtree(place.places.ops)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state is PipelineState.UNKNOWN
    assert "`ops/runs` has no run of it, and one that began at " in status.next_step
    (table,) = status.tables
    assert (table.late_rows, table.corrected_windows) == (None, None)
    asked = command(place, "status", "clicks")
    assert asked.exit_code == STATES[PipelineState.UNKNOWN], asked.output
    done = run_without_spark(place.run("next"), datetime.now(UTC), place.places.result("next"))
    assert isinstance(done, RunResult)
    publish_and_record(place.pipeline, done, place.places.result("next"), place.settings)
    assert totals(place) == before
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state is PipelineState.WELL, status.next_step
    assert [run.outcome for run in status.runs] == ["succeeded", "interrupted"]
    shown = command(place, "status", "clicks").output
    (interrupted,) = (line for line in shown.splitlines() if "interrupted" in line)
    assert interrupted.split()[-5:] == ["–", "–", "2", "–", "–"]


def test_a_root_without_its_marker_stops_all_before_anything_is_written(tmp_path: Path) -> None:
    place = Place(tmp_path / "lake")
    place.root.mkdir()
    place.write_file()
    variables = place.variables | {"TIDEMARK_ROOT_MARKER": "here"}
    before = sorted(place.root.rglob("*"))
    for *arguments, code in (
        ("run", "clicks", 75),
        ("status", "clicks", STATES[PipelineState.UNKNOWN]),
        ("checkpoint", "doctor", "clicks", 75),
        ("maintain", "clicks", "--apply", 75),
        ("doctor", "--without-spark", 75),
    ):
        asked = CliRunner().invoke(app, list(map(str, arguments)), env=variables)
        assert "has no file here" in " ".join(asked.output.split()), (arguments, asked.output)
        assert asked.exit_code == code, (arguments, asked.output)
    assert sorted(place.root.rglob("*")) == before
    (place.root / "here").touch()
    status = CliRunner().invoke(app, ["status", "clicks"], env=variables)
    assert "It has not run yet" in status.output
