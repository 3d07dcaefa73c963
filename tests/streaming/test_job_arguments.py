"""What the jobs take as arguments, and what they say of those that they do not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidemark.streaming.jobs.entry import add_range, job_parser


def test_a_range_may_be_given_in_dates() -> None:
    parser = job_parser("backfill.py", "Backfill.")
    add_range(parser, required=True)
    asked = parser.parse_args(["--pipeline", "x", "--from", "2016-06-01", "--to", "2016-06-02"])
    assert asked.start == datetime(2016, 6, 1, tzinfo=UTC)
    assert asked.end == datetime(2016, 6, 2, tzinfo=UTC)


def test_a_bound_without_a_zone_is_told_with_what_to_write(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = job_parser("backfill.py", "Backfill.")
    add_range(parser, required=True)
    with pytest.raises(SystemExit):
        parser.parse_args(["--pipeline", "x", "--from", "2016-06-01T12:00"])
    assert capsys.readouterr().err.endswith(
        "error: argument --from: '2016-06-01T12:00' has no zone; write it as in "
        "2026-07-01T12:00:00Z, or a date alone for its midnight in UTC\n"
    )
