"""Sessions without Spark: what DuckDB finds in bronze is what plain Python gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operators.contract.folded import hanging_together
from tests.operators.contract.kinds import session_table
from tidemark.operators.sessions.in_bronze import SessionsIn, sessions_of
from tidemark.operators.sessions.sessions import Sessions
from tidemark.operators.touched import NEVER_MS, BatchRead
from tidemark.pipeline.instants import epoch_us
from tidemark.storage.delta.place import TablePlace

# A row: its key, and when it is, in quarters of a day.
Event = tuple[str | None, int]
# A session: its key, its first and its last row, and how many rows it has.
Stretch = tuple[str | None, datetime, datetime, int]
QUARTER = timedelta(hours=6)
FIRST = datetime(2026, 7, 1, tzinfo=UTC)
BRONZE = pa.schema(
    [("at", pa.timestamp("us", "UTC")), ("key", pa.string()), ("_event_date", pa.date32())]
)


def when(event: Event) -> datetime:
    return FIRST + event[1] * QUARTER


def sessions_with(
    points: Sequence[Event], events: Sequence[Event], gap: timedelta
) -> list[Stretch]:
    found: list[Stretch] = []
    for key in {key for key, _ in points}:
        asked = {when(point) for point in points if point[0] == key}
        of_key = sorted(when(event) for event in events if event[0] == key)
        for rows in hanging_together([{"at": at} for at in of_key], gap):
            times = [row["at"] for row in rows]
            if asked.intersection(times):
                found.append((key, times[0], times[-1], len(times)))
    return in_order(found)


def in_order(found: Iterable[Stretch]) -> list[Stretch]:
    return sorted(found, key=lambda one: (str(one[0]), *one[1:]))


def found_in(
    folder: Path, points: Sequence[Event], events: Sequence[Event], gap: timedelta
) -> list[Stretch]:
    """The sessions that bronze with these events gives."""
    rows = [{"at": when(one), "key": one[0], "_event_date": when(one).date()} for one in events]
    table = pa.Table.from_pylist(rows, BRONZE)
    write_deltalake(str(folder), table, partition_by=["_event_date"])
    within = SessionsIn(DeltaTable(str(folder)), "at", session_table("append", gap))
    asked = [{"key": key, "_t": epoch_us(when((key, at)))} for key, at in points]
    sessions = sessions_of(within, pa.Table.from_pylist(asked, within.no_points().schema))
    assert set(sessions.column_names) == {"window_start", "key", "window_end", "rows"}
    return in_order(
        (one["key"], one["window_start"], one["window_end"] - gap, one["rows"])
        for one in sessions.to_pylist()
    )


def days(key: str, *numbers: int) -> list[Event]:
    return [(key, 4 * number) for number in numbers]


REACHING = [*days("a", 5, 10, 12, 14), *days("b", 19)]


@pytest.mark.parametrize("points", [days("a", 5), [*days("a", 5), *days("b", 19)], REACHING])
def test_a_session_is_whole_whatever_else_is_asked_for(
    tmp_path: Path, points: Sequence[Event]
) -> None:
    """With b's row, days before it are read at once, up to which a's session reaches."""
    gap = timedelta(days=5)
    expected = sessions_with(points, REACHING, gap)
    assert ("a", FIRST + timedelta(days=5), FIRST + timedelta(days=14), 4) in expected
    assert found_in(tmp_path, points, REACHING, gap) == expected


def test_two_points_of_a_session_that_lasts_for_weeks_find_it_once(tmp_path: Path) -> None:
    events, gap = days("a", *range(1, 26)), timedelta(days=5)
    expected = ("a", FIRST + timedelta(days=1), FIRST + timedelta(days=25), 25)
    assert found_in(tmp_path, days("a", 5, 19), events, gap) == [expected]


def random_case(seed: int) -> tuple[timedelta, list[Event], list[Event]]:
    """A gap of hours or days, long sessions of three keys, and a few points of them."""
    draw = Random(seed)
    gap, events = draw.choice([1, 4, 8, 12, 16, 20, 20, 20]), list[Event]()
    for key in ("a", "b", None):
        at = draw.randint(0, 20)
        for _ in range(draw.randint(1, 40)):
            events.append((key, at))
            at += draw.choice([1, 2, 4, 4, 8]) if draw.random() < 0.97 else gap + 1
    points = draw.sample(events, min(len(events), draw.randint(1, 4)))
    return gap * QUARTER, events, [*points, ("a", draw.randint(0, 120))]


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_sessions_of_points_are_those_of_plain_python(seed: int) -> None:
    gap, events, points = random_case(seed)
    with TemporaryDirectory() as folder:
        expected = sessions_with(points, events, gap)
        assert found_in(Path(folder), points, events, gap) == expected


@pytest.mark.parametrize(("watermark", "late"), [(timedelta(0), 0), (timedelta(days=2), 1)])
def test_a_row_of_the_first_instant_is_late_only_where_the_watermark_is_a_gap_ahead(
    tmp_path: Path, watermark: timedelta, late: int
) -> None:
    """The frontier is 0 in both batches; the engine drops the row in the second one only."""
    gap, epoch = timedelta(days=2), datetime(1970, 1, 1, tzinfo=UTC)
    row = {"at": epoch, "key": "a", "_event_date": epoch.date()}
    table = pa.Table.from_pylist([row], BRONZE)
    write_deltalake(str(tmp_path), table, partition_by=["_event_date"])
    rows = Sessions("at", session_table("append", gap)).rows_in(DeltaTable(str(tmp_path)))
    batch = BatchRead(1, 0, 0, 0, watermark // timedelta(milliseconds=1))
    place = TablePlace(str(tmp_path))
    found = rows.touched(place, [batch], None, 0)
    (counts,) = found.batches
    assert (counts.wholly_late, counts.late_groups, found.closed.num_rows) == (late, late, late)
    every = rows.touched(place, [batch], None, NEVER_MS).closed
    assert rows.count_in_batch(place, batch, every, batch.late_ms) == 1 - late
