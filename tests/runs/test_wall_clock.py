"""No run begins by a clock that is before the last batch's time, or is not the store's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from tests.kit.running import Place, clicks
from tests.storage.leases import holder, ignore
from tests.storage.s3 import s3_server
from tidemark.checkpoint.log import Checkpoint
from tidemark.cli.main import app
from tidemark.errors import ClockWrong
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.retention import frozen_before_ms
from tidemark.pipeline.instants import epoch_ms
from tidemark.recompute.rewind.input import notes_up_to
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.preflight import SparkNeeded
from tidemark.runs.results.result import RunResult
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.runs.wall_clock import accept_clock, clock_faults
from tidemark.runs.without_spark import run_without_spark
from tidemark.sources.notes import source_notes
from tidemark.sources.source import LossAcceptance
from tidemark.storage.files import Options
from tidemark.storage.lease.held import Clocks
from tidemark.storage.lease.lease import hold_lease
from tidemark.upkeep.maintenance.maintain import maintain_pipeline

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
FAR = timedelta(minutes=5)
BY_ADA = LossAcceptance("a store of old", "Ada", NOW)
minutes = st.sampled_from([-4_000_000, -2880, -6, -5, -4, -1, 0, 1, 4, 5, 6, 2880])


def planned(ingest: Checkpoint, batch: int, at: datetime) -> None:
    """As the engine plans a batch, as far as its time goes."""
    offsets = Path(ingest.uri, "offsets")
    offsets.mkdir(parents=True, exist_ok=True)
    head = {"batchWatermarkMs": 0, "batchTimestampMs": epoch_ms(at), "conf": {}}
    text = f'v1\n{json.dumps(head)}\n{{"logOffset":-1}}'
    (offsets / str(batch)).write_text(text)


def ingest_of(place: Place) -> Checkpoint:
    return ingest_checkpoint(place.warehouse)


@given(last=st.none() | minutes, store=minutes)
@example(last=None, store=0)
@settings(max_examples=60)
def test_a_clock_more_than_five_minutes_apart_stops_until_it_is_accepted(
    tmp_path_factory: pytest.TempPathFactory, last: int | None, store: int
) -> None:
    ingest = ingest_of(Place(tmp_path_factory.mktemp("root")))
    clocks = Clocks(NOW, NOW + timedelta(minutes=store))
    if last is not None:
        planned(ingest, 3, NOW + timedelta(minutes=last))
    found = clock_faults(ingest, clocks)
    assert len(found) == (last is not None and last > 5) + (abs(store) > 5)
    for told in found:
        assert "This machine's clock says 2026-07-01T12:00:00Z" in told
    assert accept_clock(ingest, clocks, BY_ADA) == found
    assert clock_faults(ingest, clocks) == ()
    assert len(source_notes(ingest).clock) == bool(found)
    # What is apart anew is another matter.
    moved = NOW - timedelta(minutes=store + 20_000_000)
    assert clock_faults(ingest, Clocks(NOW, moved)) != ()
    planned(ingest, 4, NOW + 2 * FAR)
    assert clock_faults(ingest, clocks) != ()


def test_a_clock_that_began_anew_stops_a_first_run(tmp_path: Path) -> None:
    began = datetime(1970, 1, 1, 0, 3, tzinfo=UTC)
    ingest = ingest_of(Place(tmp_path))
    (found,) = clock_faults(ingest, Clocks(began, began))
    assert found == "This machine's clock says 1970-01-01T00:03:00Z, which is before " + (
        "2020-01-01T00:00:00Z."
    )
    accept_clock(ingest, Clocks(began, began), replace(BY_ADA, at=began))
    assert clock_faults(ingest, Clocks(began, began)) == ()


@pytest.mark.parametrize("batch", [7, None], ids=["batches", "none yet"])
def test_a_clock_that_goes_back_once_it_is_accepted_stops_runs_again(
    tmp_path: Path, batch: int | None
) -> None:
    ingest, own = ingest_of(Place(tmp_path)), NOW - timedelta(days=3_000)
    if batch is not None:
        planned(ingest, batch, NOW + timedelta(days=2))
    accepted = Clocks(own, own)
    accept_clock(ingest, accepted, replace(BY_ADA, at=own))
    for since in (-FAR, timedelta(0), timedelta(days=1)):
        assert clock_faults(ingest, Clocks(own + since, own + since)) == ()
    for back in (FAR + timedelta(seconds=1), timedelta(days=30)):
        (found,) = clock_faults(ingest, Clocks(own - back, own - back))
        assert "was planned later" in found or "which is before 2020" in found
    gone = own - timedelta(days=30)
    accept_clock(ingest, Clocks(gone, gone), replace(BY_ADA, at=gone))
    assert clock_faults(ingest, Clocks(gone, gone)) == ()


def run(place: Place) -> RunResult | SparkNeeded:
    """It stands for a time of half a year ago."""
    return run_without_spark(place.run("r"), datetime.now(UTC), place.places.result("r"))


def files_of(place: Place) -> set[str]:
    found = (str(one.relative_to(place.root)) for one in place.root.rglob("*") if one.is_file())
    return {one for one in found if "/lease/" not in one}


def test_a_run_by_an_earlier_clock_ends_with_75_before_it_writes_and_goes_on_once_that_is_accepted(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    later = datetime.now(UTC) + timedelta(days=2)
    planned(ingest_of(place), 7, later)
    before = files_of(place)
    stopped = run(place)
    assert isinstance(stopped, RunResult)
    assert stopped.error is not None
    assert (stopped.error.type, stopped.error.retry_can_help) == ("ClockWrong", True)
    assert f"was planned later, at {later:%Y-%m-%dT%H:%M:%SZ}" in stopped.error.message
    assert files_of(place) - before == {"clicks/results/r.json"}
    for write in (
        lambda: maintain_pipeline(place.pipeline, place.settings, "m", datetime.now(UTC)),
        lambda: pipeline_lease(place.pipeline, place.settings, "p", "publish").__enter__(),
    ):
        with pytest.raises(ClockWrong):
            write()
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert (status.state, "planned later" in status.next_step) == (PipelineState.FAILED, True)

    asked = command(place, "run", "clicks")
    assert asked.exit_code == 75, asked.output
    told = command(place, "accept", "clicks").output
    assert "and the last batch of the source, 7, was planned later" in told
    assert "Nothing was written. Accept it with --reason" in told
    accepted = command(place, "accept", "clicks", "--reason", "it was wrong", "--by", "Ada")
    assert accepted.exit_code == 0, accepted.output
    assert "Accepted: it was wrong (Ada).\nRuns go on with this machine's clock" in accepted.output
    (note,) = source_notes(ingest_of(place)).clock
    assert (note.batch, note.accepted, note.by) == (7, "it was wrong", "Ada")
    assert isinstance(run(place), SparkNeeded)


def command(place: Place, *arguments: str) -> Result:
    place.write_file()
    return CliRunner().invoke(app, arguments, env=place.variables)


def test_a_run_after_the_last_batch_or_as_good_as_then_goes_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for batch, since in enumerate((-timedelta(days=400), FAR - timedelta(minutes=1))):
        planned(ingest_of(place), batch, datetime.now(UTC) + since)
        assert isinstance(run(place), SparkNeeded)


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@contextmanager
def held(folder: str, options: Options, apart: timedelta) -> Iterator[Clocks]:
    """The clocks of a lease that is taken on a machine whose clock is so far ahead."""
    now = partial(lambda ahead: datetime.now(UTC) + ahead, apart)
    with hold_lease(folder, holder(), options, on_lapse=ignore, now=now) as lease:
        yield lease.clocks()


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-100_000, -48, 0, 48])
def test_the_store_tells_its_time_by_the_lease_that_it_wrote(
    store: dict[str, str], tmp_path: Path, hours: int
) -> None:
    apart = timedelta(hours=hours)
    for folder, options in ((f"s3://lake/{hours}", store), (str(tmp_path), {})):
        with held(folder, options, apart) as clocks:
            assert abs(clocks.own - datetime.now(UTC) - apart) < timedelta(minutes=1)
            assert abs(clocks.own - clocks.store - apart) < timedelta(minutes=1)
            assert bool(clock_faults(Checkpoint(f"{folder}/none", options), clocks)) == bool(hours)


def test_dates_that_a_clock_ahead_may_have_dropped_stay_frozen_once_it_is_set_right(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, clicks(keep="30 days"))
    ingest, ahead = ingest_of(place), NOW + timedelta(days=100)
    planned(ingest, 0, NOW)
    planned(ingest, 1, ahead)
    accept_clock(ingest, Clocks(NOW, NOW), BY_ADA)
    planned(ingest, 2, NOW)
    frozen = epoch_ms(ahead - timedelta(days=30))
    assert frozen_before_ms(place.pipeline, ingest) == frozen
    # A rewind to before it has these dates again.
    for batch, notes in ((1, 1), (0, 0)):
        text = notes_up_to(ingest, batch)
        assert text is not None
        assert len(json.loads(text)["clock"]) == notes
