"""What a command came to is on its stdout, once; on stderr are progress and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run import tidemark
from tests.kit.running import Place
from tidemark.recompute.audit_result import AuditResult, TableAudit
from tidemark.recompute.backfill_result import BackfillResult
from tidemark.recompute.migration_result import MigrationResult
from tidemark.recompute.rewind.result import RewindResult
from tidemark.runs.requests import StreamRequest
from tidemark.storage.result_file import Facts

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ENDED = {"pipeline": "clicks", "run_id": "r", "started_at": NOW, "ended_at": NOW}
AUDITED = TableAudit(
    gold=3, bronze=5, before_batch=None, close_ms=0, closed_only=False, windows_from=None,
    windows_to=None,
)  # fmt: skip
MIGRATED = MigrationResult(
    **ENDED, table="per_10m", dry_run=True, outcome="succeeded", changes=("a new measure",)
)
RANGE = ["--from", "2026-01-01", "--to", "2026-01-02"]


@pytest.mark.parametrize(
    ("arguments", "result", "said"),
    [
        (
            ["audit", "clicks"],
            AuditResult(**ENDED, outcome="equal", tables={"per_10m": AUDITED}),
            "per_10m: gold equals bronze\n",
        ),
        (
            ["backfill", "clicks", "--table", "per_10m", *RANGE],
            BackfillResult(
                **ENDED, table="per_10m", dry_run=False, outcome="succeeded", window_from=NOW,
                window_to=NOW,
            ),
            "nothing to publish: gold stays as it is\n",
        ),
        (["migrate", "clicks", "--rebuild", "per_10m"], MIGRATED, "a new measure\n"),
        (
            ["rewind", "clicks", "--apply", "--json"],
            RewindResult(**ENDED, dry_run=False, outcome="succeeded"),
            '"outcome": "succeeded"',
        ),
    ],
    ids=["audit", "backfill", "migrate", "rewind"],
)  # fmt: skip
def test_the_report_of_a_job_is_on_stdout_of_the_command_that_asked_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    result: Facts,
    said: str,
) -> None:
    place = Place(tmp_path)
    place.write_file()
    Path(place.places.checkpoints).mkdir(parents=True)
    monkeypatch.setattr("tidemark.cli.job.run_job", lambda *_, **__: result)
    ended = tidemark(place, *arguments)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert said in ended.stdout


@pytest.mark.parametrize("asked_for", [True, False])
def test_a_job_prints_its_report_where_nobody_reads_its_result(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    asked_for: bool,
) -> None:
    from tidemark.streaming.jobs.entry import Job, JobOutcome, job_main

    def work(job: Job[StreamRequest]) -> JobOutcome:
        return JobOutcome(MIGRATED, job.target, 0, ["what it came to"])

    place, result = Place(tmp_path), tmp_path / "result.json"
    place.write_file()
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    named = ["--result", str(result)] if asked_for else []
    request = StreamRequest.read(["--pipeline", "clicks", *named])
    failed: Callable[..., Any] = MigrationResult
    assert job_main(request, work, failed) == 0
    assert capsys.readouterr().out == ("" if asked_for else "what it came to\n")
    if asked_for:
        assert json.loads(result.read_text())["changes"] == ["a new measure"]
