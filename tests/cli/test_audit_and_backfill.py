"""`tidemark audit` and `tidemark backfill`: the jobs by a command; what is no command is told at
once."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.test_run import FIRST, tidemark, tidemark_process
from tests.kit.running import Place, query

BACKFILL = ["backfill", "clicks", "--table", "per_10m"]
RANGE = ["--from", "2025-12-31T23:00:00-01:00", "--to", "2026-01-01T10:10:00Z"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "clicks", "--table", "per_1h"], "per_1h is no table of clicks, which has per_"),
        (["audit", "clicks", "--from", "2026-01-01T10:00"], "has no zone"),
        (["backfill", "clicks", *RANGE], "Missing option '--table'"),
        ([*BACKFILL, "--from", "2026-01-01"], "Missing option '--to'"),
        ([*BACKFILL, *RANGE, "--accept"], "--accept and --reason go together"),
        ([*BACKFILL, *RANGE, "--master", "spark://far:7077"], "local[*]"),
        (["backfill", "clicks", "--table", "per_1h", *RANGE], "per_1h is no table of clicks"),
    ],
)
def test_what_cannot_be_asked_is_told_before_a_job_is_started(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    place = Place(tmp_path)
    ended = tidemark(place, *arguments)
    assert ended.exit_code in (1, 2), ended.output
    assert said in ended.stderr
    assert not Path(place.places.folder).exists()


@pytest.mark.parametrize("asked", [["audit", "clicks"], [*BACKFILL, *RANGE]])
def test_of_a_pipeline_that_has_not_run_nothing_is_computed_and_no_job_started(
    tmp_path: Path, asked: list[str]
) -> None:
    place = Place(tmp_path)
    place.land("1.json", FIRST)
    ended = tidemark(place, *asked)
    assert ended.exit_code == 1, ended.output
    assert "clicks has not run yet, so there is nothing to" in ended.stderr
    assert not Path(place.places.folder).exists()


@pytest.mark.process
@pytest.mark.long
def test_an_audit_exits_with_1_until_a_backfill_has_mended_what_differs(tmp_path: Path) -> None:
    place, one = Place(tmp_path), ("--master", "local[1]")
    place.land("1.json", FIRST)
    assert tidemark_process(place, "run", "clicks", *one).returncode == 0
    DeltaTable(place.places.bronze).update({"amount": "100"}, predicate="key = 'a'")
    stopped = tidemark_process(place, "audit", "clicks", *one)
    assert (stopped.returncode, "1 windows differ" in stopped.stdout) == (1, True), stopped.stderr
    assert "windows differ" not in stopped.stderr

    elsewhere = tidemark_process(place, "audit", "clicks", "--to", "2026-01-01", *one)
    assert elsewhere.returncode == 0, elsewhere.stderr

    version = DeltaTable(place.places.gold("per_10m")).version()
    dry = tidemark_process(place, *BACKFILL, *RANGE, "--dry-run", *one)
    assert (dry.returncode, "(amount=1) → (amount=100)" in dry.stdout) == (0, True), dry.stderr
    assert DeltaTable(place.places.gold("per_10m")).version() == version
    mended = tidemark_process(place, *BACKFILL, *RANGE, *one)
    assert (mended.returncode, "1 windows published" in mended.stdout) == (0, True), mended.stderr
    values = "SELECT amount, status, revision FROM gold WHERE key = 'a'"
    assert query(values, gold=place.gold()) == [(100, "corrected", 1)]
    assert tidemark_process(place, "audit", "clicks", *one).returncode == 0
