"""What the last act on a pipeline leaves of its status, and when that holds no more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.running import Place, clicks
from tests.kit.windows import at, window
from tests.runs.pipelines import BEGAN, bronze, ended, housekept, windows_of
from tests.storage.leases import leave, left_by_another
from tidemark.errors import RunFailed
from tidemark.runs.status.pipeline_status import PipelineStatus, pipeline_status
from tidemark.runs.status.recorded_status import all_statuses, record_status, recorded_status
from tidemark.runs.status.state import PipelineState
from tidemark.runs.unfinished_act import unfinished_mark

NOW = BEGAN + timedelta(minutes=25)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A pipeline that ran and whose status was recorded."""
    place = Place(tmp_path / "root", content=clicks(schedule="*/10 * * * *"))
    place.write_file()
    windows_of(place)
    bronze(place, at(10, 12), at(10, 50))
    write_deltalake(place.places.rejects, pa.table({"raw": ["{"]}))
    ended(place, trigger="scheduled")
    housekept(place, at(12), ingest=0, per_10m=4_000)
    record_status(place.name, place.settings, NOW)
    return place


def left(place: Place, now: datetime = NOW) -> PipelineStatus | None:
    return recorded_status(place.write_file(), place.settings, now)


def test_what_is_recorded_is_what_a_look_at_everything_tells(place: Place) -> None:
    found = left(place)
    assert found is not None
    assert found.state is PipelineState.OVERDUE
    assert found == replace(pipeline_status(place.pipeline, place.settings, NOW), source=None)


def test_the_time_is_told_anew(place: Place) -> None:
    early = left(place, BEGAN + timedelta(minutes=5))
    assert early is not None
    assert (early.state, early.next_step) == (PipelineState.WELL, "Nothing.")
    late = left(place, BEGAN + timedelta(hours=3))
    assert late is not None
    assert late.state is PipelineState.OVERDUE
    assert "2026-" in late.next_step
    # A clock that is behind the last run is one to be looked at.
    assert left(place, BEGAN - timedelta(minutes=6)) is None


@pytest.mark.parametrize(
    "leave_run",
    [
        lambda place: ended(place, "next", NOW, error=RunFailed("no")),
        lambda place: ended(place, "next", NOW, held=True),
        lambda place: ended(place, "next", NOW),
    ],
)
def test_a_run_that_failed_or_is_held_is_recorded_as_that(
    place: Place, leave_run: Callable[[Place], None]
) -> None:
    leave_run(place)
    now = NOW + timedelta(minutes=1)
    assert left(place, now) is None
    record_status(place.name, place.settings, now)
    full = pipeline_status(place.pipeline, place.settings, now)
    assert left(place, now) == replace(full, source=None)


def test_a_moved_root_keeps_what_was_recorded(place: Place, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    place.root.rename(moved)
    found = Place(moved, content=clicks(schedule="*/10 * * * *"))
    assert left(found) is not None


def commit(uri: str) -> None:
    table = DeltaTable(uri)
    rows = table.to_pyarrow_table().slice(0, 0)
    write_deltalake(
        table, rows, mode="append", commit_properties=CommitProperties(custom_metadata={"a": "b"})
    )


def planned(checkpoint: str) -> None:
    Path(checkpoint, "offsets").mkdir()
    Path(checkpoint, "offsets", "0").touch()


def newest_entry(uri: str) -> Path:
    return max(Path(uri, "_delta_log").glob("*.json"))


CHANGES: dict[str, Callable[[Place], object]] = {
    "a commit to bronze": lambda place: commit(place.places.bronze),
    "a commit to rejects": lambda place: commit(place.places.rejects),
    "a commit to gold": lambda place: commit(place.places.gold("per_10m")),
    "a commit to changes": lambda place: commit(place.places.changes("per_10m", 1)),
    "a commit to runs": lambda place: commit(place.places.runs),
    "a commit to upkeep": lambda place: commit(place.places.upkeep),
    "a ledger": lambda place: write_deltalake(
        place.places.ledger, DeltaTable(place.places.runs).to_pyarrow_table()
    ),
    "gold's newest entry is gone": lambda place: newest_entry(
        place.places.gold("per_10m")
    ).unlink(),
    "bronze is gone": lambda place: Path(place.places.bronze).rename(place.root / "elsewhere"),
    "rejects is gone": lambda place: Path(place.places.rejects).rename(place.root / "elsewhere"),
    "a batch is planned": lambda place: planned(place.places.ingest_checkpoint),
    "a table's batch is planned": lambda place: planned(
        place.places.query_checkpoint("per_10m", 1)
    ),
    "a rewind was begun": lambda place: (
        Path(place.places.rewinds).mkdir(),
        Path(unfinished_mark(place.warehouse)).touch(),
    ),
    "another file of its name": lambda place: place.write_file().with_suffix(".yml").touch(),
    "a lease": lambda place: leave(place.places.lease, left_by_another()),
    "another Tidemark": lambda place: retold(place, written_by="0.2.0+0"),
    "a newer form": lambda place: retold(place, format=2),
    "half a file": lambda place: Path(place.places.status).write_text("{"),
    "no file": lambda place: Path(place.places.status).unlink(),
}


def retold(place: Place, **changed: object) -> None:
    file = Path(place.places.status)
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_recorded_holds_no_more(place: Place, change: Callable[[Place], object]) -> None:
    assert left(place) is not None
    change(place)
    assert left(place) is None


def test_what_was_recorded_holds_no_more_after_a_change_of_the_pipelines_file(place: Place) -> None:
    file = place.write_file()
    assert recorded_status(file, place.settings, NOW) is not None
    file.write_text(file.read_text() + "# of another mind\n")
    assert recorded_status(file, place.settings, NOW) is None


def test_what_no_log_tells_of_is_not_recorded(place: Place) -> None:
    shutil.rmtree(place.places.changes("per_10m", 1))
    assert pipeline_status(place.pipeline, place.settings, NOW).state is PipelineState.STOPPED
    record_status(place.name, place.settings, NOW)
    assert not Path(place.places.status).exists()


def test_a_status_that_cannot_be_recorded_stops_nobody(place: Place) -> None:
    Path(place.places.status).unlink()
    Path(place.places.status).mkdir()
    record_status(place.name, place.settings, NOW)
    record_status("unknown", place.settings, NOW)


def test_all_pipelines_are_told_by_what_was_left_and_else_by_a_look(tmp_path: Path) -> None:
    one, other, new = (Place(tmp_path, name=name) for name in ("one", "other", "new"))
    for place in (one, other):
        place.write_file()
        windows_of(place)
        ended(place)
        record_status(place.name, place.settings, NOW)
    new.write_file()
    other.windows().change(window(at(11), key="a", total=1))
    told = {one.name: one for one in all_statuses(one.settings, NOW)}
    assert [(name, status.state) for name, status in told.items()] == [
        ("new", PipelineState.NEW),
        ("one", PipelineState.WELL),
        ("other", PipelineState.HELD),
    ]
    # The source is asked of whom nobody left anything, or on demand.
    assert [told["one"].source is None, told["other"].source is None] == [True, False]
    full = {one.name: one for one in all_statuses(one.settings, NOW, full=True)}
    assert full["one"].source is not None
    assert full == told | {"one": full["one"]}
    assert replace(full["one"], source=None) == told["one"]
