"""When the last windows of an idle source close: the rule, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.late_model import EPOCH, MILLISECOND, starts_of
from tests.kit.running import Place, clicks
from tidemark.operators.windows.counts import newest_window_end_ms
from tidemark.pipeline.model import Window
from tidemark.runs.repair_facts import seal_frontier_ms, seal_ms
from tidemark.runs.run import Outcome
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.rows import Rows

MINUTE = timedelta(minutes=1)
IDLE, DELAY = 30 * MINUTE, 10 * MINUTE
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("_event_date", pa.date32())])
DAY = datetime(2026, 7, 1, tzinfo=UTC)
_YEAR_MS = timedelta(days=365) // MILLISECOND


def millis(hour: int, minute: int = 0) -> int:
    return (DAY.replace(hour=hour, minute=minute) - EPOCH) // MILLISECOND


def frontier(scheduled_ms: int, last_ingest_ms: int | None, newest_end_ms: int = millis(23)) -> int:
    return seal_frontier_ms(scheduled_ms, last_ingest_ms, IDLE, DELAY, newest_end_ms)


def test_a_source_that_was_idle_for_exactly_as_long_as_asked_is_sealed() -> None:
    assert frontier(millis(12), millis(11, 30)) == millis(11, 20)


def test_a_source_that_was_idle_a_millisecond_less_is_not() -> None:
    assert frontier(millis(12), millis(11, 30) + 1) == 0


def test_the_frontier_stays_idle_and_delay_behind_the_scheduled_time() -> None:
    assert frontier(millis(12), millis(8)) == millis(11, 20)


def test_the_frontier_does_not_pass_the_newest_window() -> None:
    assert frontier(millis(12), millis(8), millis(9, 10)) == millis(9, 10)


def test_a_source_whose_last_row_no_log_knows_is_idle() -> None:
    assert frontier(millis(12), None) == millis(11, 20)


def test_a_source_without_any_row_seals_nothing() -> None:
    assert frontier(millis(12), None, newest_end_ms=0) == 0


def test_a_scheduled_time_before_the_last_run_that_ingested_seals_nothing() -> None:
    """A run of an earlier day, started again by hand."""
    assert frontier(millis(8), millis(11)) == 0


def test_a_frontier_before_1970_is_none() -> None:
    assert seal_frontier_ms(10, None, IDLE, DELAY, 5) == 0


times = st.integers(0, 2**42)
spans = st.integers(1, 2**33).map(lambda ms: ms * MILLISECOND)


@given(times, st.none() | times, spans, spans, times, st.integers(0, 2**33))
def test_the_frontier_never_goes_back_while_the_source_stays_idle(
    scheduled: int, last: int | None, idle: timedelta, delay: timedelta, newest: int, later: int
) -> None:
    now = seal_frontier_ms(scheduled, last, idle, delay, newest)
    assert now <= seal_frontier_ms(scheduled + later, last, idle, delay, newest)
    assert 0 <= now <= newest
    assert now == 0 or now + (idle + delay) // MILLISECOND <= scheduled


def bronze(folder: Path, *times: datetime) -> DeltaTable:
    rows = [{"at": at, "_event_date": at.date()} for at in times]
    values = pa.Table.from_pylist(rows, SCHEMA)
    write_deltalake(str(folder), values, mode="append", partition_by=["_event_date"])
    return DeltaTable(str(folder))


def ingested(place: Place, table: str, batch: int, scheduled_ms: int) -> None:
    """A row of 10:50 in bronze or rejects, by a run that stood for this time."""
    note = IngestNote(
        query="q", batch=batch, rows=Rows(read=1, accepted=1), scheduled_ms=scheduled_ms
    )
    at = DAY.replace(hour=10, minute=50)
    rows = pa.Table.from_pylist([{"at": at, "_event_date": at.date()}], SCHEMA)
    written = CommitProperties(custom_metadata=as_metadata(note))
    uri = place.places.bronze if table == "bronze" else place.places.rejects
    write_deltalake(
        uri, rows, mode="append", partition_by=["_event_date"], commit_properties=written
    )


@pytest.mark.parametrize("tables", [("bronze", "rejects"), ("rejects", "bronze")])
@pytest.mark.parametrize(
    "stood_for",
    [
        pytest.param((millis(11) + _YEAR_MS, millis(11)), id="a time to come"),
        pytest.param((millis(11), millis(8)), id="an earlier time"),
    ],
)
def test_a_run_that_stood_for_another_time_does_not_change_since_when_a_source_is_idle(
    tmp_path: Path, tables: tuple[str, str], stood_for: tuple[int, int]
) -> None:
    idle = {"delay": "10 minutes", "seal_after_idle": "30 minutes"}
    place = Place(tmp_path, clicks(watermark=idle))
    place.windows()
    for batch, (table, scheduled_ms) in enumerate(zip(tables, stood_for, strict=True)):
        ingested(place, table, batch, scheduled_ms)
    idle_at = [DAY.replace(hour=11, minute=minute) for minute in (29, 30)]
    sealed = [seal_ms(place.run("run", now).table("per_10m"), Outcome()) for now in idle_at]
    assert sealed == [0, millis(10, 50)]


@pytest.mark.parametrize(
    ("length", "slide"), [(10, 10), (10, 5), (10, 4), (60, 7), (24 * 60, 24 * 60)]
)
@pytest.mark.parametrize("minute", [0, 3, 5, 59.999999])
def test_the_newest_window_is_the_last_that_the_newest_row_is_in(
    tmp_path: Path, length: int, slide: int, minute: float
) -> None:
    window = Window(length=length * MINUTE, slide=slide * MINUTE)
    newest = DAY + timedelta(hours=11, minutes=minute)
    rows = bronze(tmp_path, newest - timedelta(days=3), newest, newest - timedelta(hours=10))
    end = max(starts_of(newest, window)) + window.length
    assert newest_window_end_ms(rows, "at", window) == (end - EPOCH) // MILLISECOND


def test_an_end_between_two_milliseconds_counts_as_the_later(tmp_path: Path) -> None:
    """Else the newest window, which ends after that frontier, would stay open for ever."""
    window = Window(length=timedelta(microseconds=1_300), slide=timedelta(microseconds=1_300))
    rows = bronze(tmp_path, DAY)
    end = max(starts_of(DAY, window)) + window.length
    assert (end - EPOCH) % MILLISECOND
    assert newest_window_end_ms(rows, "at", window) == (end - EPOCH) // MILLISECOND + 1


def test_a_bronze_without_rows_has_no_newest_window(tmp_path: Path) -> None:
    window = Window(length=10 * MINUTE, slide=10 * MINUTE)
    assert newest_window_end_ms(bronze(tmp_path), "at", window) == 0


def test_only_the_newest_date_is_opened(tmp_path: Path) -> None:
    bronze(tmp_path, DAY)
    table = bronze(tmp_path, DAY + timedelta(days=1))
    for file in table.file_uris():
        if "2026-07-01" in file:
            Path(file).unlink()
    window = Window(length=10 * MINUTE, slide=10 * MINUTE)
    expected = (DAY + timedelta(days=1, minutes=10) - EPOCH) // MILLISECOND
    assert newest_window_end_ms(table, "at", window) == expected
