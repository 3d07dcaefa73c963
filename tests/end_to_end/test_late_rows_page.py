"""The page on late rows and seals: its worked example, number by number."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.end_to_end.conftest import Worked
from tests.end_to_end.pages import as_table, page, table_under
from tests.end_to_end.worked_modes import ADS, MODES, Row, at, clock, history
from tests.kit.running import query
from tidemark.gold.pins import TableResult

PAGE = page("late-rows.md")
CAUSES = "strftime(window_start, '%H:%M'), spotId, impressions, cause"


def corrections(worked: Worked, mode: str, run: str) -> list[tuple[Row | None, Row]]:
    """The rows that a run's repair appended, each with the row of its window before."""
    known: dict[tuple[object, ...], Row] = {}
    found = []
    for row in history(worked.place, ADS, mode):
        if row["cause"] != "stream" and row["run"] == run:
            found.append((known.get(ADS.key_of(row)), row))
        known[ADS.key_of(row)] = row
    return found


def late_table(worked: Worked) -> str:
    rows = [
        (clock(r["window_start"]), r["spotId"], before and before["impressions"], r["impressions"])
        for before, r in corrections(worked, "update", "run-6")
    ]
    return as_table(("window", "spot", "before", "after"), rows)


def seal_table(worked: Worked) -> str:
    rows = [
        (
            run.run_id.removeprefix("run-"),
            clock(run.scheduled_at or at(0, 0)),
            run.rows.read,
            time_of(run.tables["update"].sealed_to_ms),
            time_of(run.tables["update"].close_after_ms),
            run.tables["update"].late.assigned,
            len(corrections(worked, "update", run.run_id)),
            len(corrections(worked, "append", run.run_id)),
        )
        for run in worked.tail
    ]
    names = ("run", "scheduled", "rows read", "sealed to", "closed up to", "late assignments")
    return as_table((*names, "corrected, update", "corrected, append"), rows)


def time_of(milliseconds: int) -> str | None:
    return clock(datetime.fromtimestamp(milliseconds / 1000, UTC)) if milliseconds else None


def test_the_windows_that_the_late_rows_touch_are_the_page_s(impressions: Worked) -> None:
    assert late_table(impressions) == table_under(PAGE, "late")


def test_the_seals_are_the_page_s(impressions: Worked) -> None:
    assert seal_table(impressions) == table_under(PAGE, "seal")


@pytest.mark.parametrize("mode", MODES)
def test_one_row_is_wholly_late_and_one_partly(impressions: Worked, mode: str) -> None:
    late = impressions.steps[mode][5].result.late
    assert (late.rows, late.partly, late.assigned, late.windows) == (1, 1, 3, 3)
    assert (late.recomputed, late.corrected) == (3, 3)


@pytest.mark.parametrize("mode", MODES)
def test_after_the_seal_every_window_is_closed_and_the_late_row_corrects_two(
    impressions: Worked, mode: str
) -> None:
    sealed, last = (run.tables[mode] for run in impressions.tail[2:])
    assert (last.late.rows, last.late.assigned, last.late.corrected) == (1, 2, 2)
    assert closed(sealed) == closed(last) == at(12, 30)
    found = query(
        "SELECT strftime(window_start, '%H:%M'), spotId, impressions, status, revision "
        "FROM gold WHERE window_start >= '2026-03-01 12:15:00+00' ORDER BY ALL",
        gold=impressions.place.gold(mode),
    )
    assert found == [("12:15", 303, 2, "corrected", 1), ("12:20", 303, 2, "corrected", 1)]
    assert "provisional" not in impressions.place.gold(mode)["status"].to_pylist()


def closed(table: TableResult) -> datetime:
    return datetime.fromtimestamp(table.close_after_ms / 1000, UTC)
