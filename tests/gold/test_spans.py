"""Publishes replace spans of time: what they read and write is right, and little."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.windows import LENGTH, Row, Windows, at, millis, window
from tidemark.gold import publish, spans
from tidemark.gold.spans import MOST_SPANS, GoldSpan, make_spans, spans_predicate, spans_written
from tidemark.gold.state import gold_state
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

MIDNIGHT = datetime(2026, 7, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)

starts = st.sets(
    st.builds(
        lambda day, milli, micro: (
            MIDNIGHT + timedelta(days=day, milliseconds=milli) + micro * MICRO
        ),
        st.integers(0, 3),
        st.integers(0, 5) | st.integers(0, 86_399_999),
        st.integers(0, 999),
    ),
    min_size=1,
    max_size=20,
)


def rows_of(times: set[datetime]) -> pa.Table:
    found = sorted(times)
    kind = pa.timestamp("us", "UTC")
    return pa.table(
        {"window_start": pa.array(found, kind), "window_date": [one.date() for one in found]}
    )


def within(one: GoldSpan, start: datetime) -> bool:
    if one.first is None or one.last is None:
        return start.date() == one.day
    return one.first <= start <= one.last


@pytest.mark.parametrize("most", [1, 3, MOST_SPANS])
@given(starts, st.randoms(use_true_random=False))
def test_spans_have_all_starts_begin_with_a_millisecond_and_are_few(
    most: int, found: set[datetime], chance: Random
) -> None:
    written = {one for one in sorted(found) if chance.random() < 0.5}
    with pytest.MonkeyPatch.context() as patched, duckdb_in_utc() as connection:
        patched.setattr(spans, "MOST_SPANS", most)
        connection.register("starts", rows_of(found))
        made = make_spans(connection)
        connection.register("written", rows_of(written))
        of_written = spans_written(connection)
        told = select(connection, made), select(connection, of_written)
    days = {one.date() for one in found}
    assert len(made) <= max(most, len(days))
    assert len(of_written) <= len(made)
    for one in (*made, *of_written):
        assert one.first is None or one.first.microsecond % 1000 == 0
    for start in found:
        assert any(within(one, start) for one in made)
        if any(within(one, start) for one in of_written):
            assert start in told[1]
    assert told[0] == found
    assert written <= told[1]
    # What is replaced was read.
    for one in of_written:
        assert any(
            one.day == other.day
            and (other.first is None or (one.first is not None and other.first <= one.first))
            and (other.last is None or (one.last is not None and one.last <= other.last))
            for other in made
        )


def select(connection: duckdb.DuckDBPyConnection, of: tuple[GoldSpan, ...]) -> set[datetime]:
    """The starts that the predicate finds in DuckDB."""
    if not of:
        return set()
    sql = f"SELECT window_start FROM starts WHERE {spans_predicate(of)}"
    return {*connection.sql(sql).to_arrow_table()["window_start"].to_pylist()}


@pytest.fixture
def windows(tmp_path: Path) -> Windows:
    return Windows(tmp_path)


@pytest.fixture
def many(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> Windows:
    """Gold of one date, of several files: its windows start at odd microseconds, as sessions do."""
    monkeypatch.setattr(publish, "_SMALLEST_FILE", 1)
    monkeypatch.setattr(publish, "_MOST_FILES", 1_000_000)
    windows.change(*[row(number, 1) for number in range(NUMBER)])
    windows.publish_at(at(0))
    # What is replaced is written in small files.
    windows.change(*[row(number, 2) for number in range(NUMBER)])
    windows.publish_at(at(0))
    assert len(windows.gold_table().file_uris()) > 10
    return windows


NUMBER = 20_000


def row(number: int, total: int, rows: int = 1) -> Row:
    start = MIDNIGHT + number * timedelta(milliseconds=1) + (number % 1000) * MICRO
    key = f"k{number % 3}"
    return {"window_start": start, "window_end": start + LENGTH, "key": key, "total": total,
            "rows": rows}  # fmt: skip


def test_files_without_a_row_in_a_span_stay_and_are_not_read(many: Windows) -> None:
    files = files_of(many)
    many.change(*[row(number, 7) for number in range(15_000, 15_010)])
    many.publish_at(at(0))
    after = files_of(many)
    assert 1 <= len(files.keys() - after.keys()) <= 2
    assert len(after.keys() - files.keys()) <= 3
    start = row(2_000, 0)["window_start"]
    for path, (first, last) in after.items():
        # The log's times are cut to milliseconds.
        if not first <= start <= last + timedelta(milliseconds=1):
            path.unlink()
    many.change(row(2_000, 9))
    assert many.publish_at(at(0)).published_windows == 1


def files_of(windows: Windows) -> dict[Path, tuple[datetime, datetime]]:
    """Gold's files, and where their windows start, as the log has it."""
    files = pa.table(windows.gold_table().get_add_actions(flatten=True)).to_pylist()
    return {
        Path(windows.gold_uri, one["path"]): (one["min.window_start"], one["max.window_start"])
        for one in files
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_after_random_publishes_gold_of_many_files_is_what_was_published(
    many: Windows, seed: int
) -> None:
    chance = Random(seed)
    expected = {row(number, 0)["window_start"]: 2 for number in range(NUMBER)}
    for step in range(4):
        first = chance.randrange(NUMBER)
        chosen = chance.choice([
            range(first, min(first + 50, NUMBER)),
            chance.sample(range(NUMBER), 5),
            chance.sample(range(NUMBER), 500),
            [*range(NUMBER, NUMBER + 20), first],
        ])  # fmt: skip
        changed = [row(n, 10 + step, chance.choice([1, 1, 1, 0])) for n in chosen]
        many.change(*changed)
        many.publish_at(at(0) + chance.choice([0, 1]) * timedelta(minutes=10, seconds=step))
        for one in changed:
            if one["rows"]:
                expected[one["window_start"]] = one["total"]
            else:
                expected.pop(one["window_start"], None)
        found = many.gold("window_start", "total")
        assert dict(found) == expected
        assert len(found) == len(expected)
        frontier = MIDNIGHT + timedelta(milliseconds=gold_state(many.gold_table()).close_ms
                                        - millis(MIDNIGHT))  # fmt: skip
        for end, status in many.gold("window_end", "status"):
            assert (status == "provisional") == (end > frontier)


def test_rows_that_somebody_deleted_by_hand_keep_no_publish_from_its_spans(
    windows: Windows,
) -> None:
    """delta-rs's delete writes texts as Arrow views, which Arrow cannot compare."""
    windows.change(*[row(number, 1) for number in range(9)], window(at(1), key="a", total=1))
    windows.publish_at(at(0, 30))
    windows.gold_table().delete("key = 'k1' AND status <> 'provisional'")
    windows.change(row(5, 3))
    assert windows.publish_at(at(1, 10)).published_windows == 2
    assert len(windows.gold("key")) == 7
