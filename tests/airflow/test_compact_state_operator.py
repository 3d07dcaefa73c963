"""The task that compacts state: skipped without a JVM unless the check before it said due."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tests.airflow.test_stream_operator import SUBMIT
from tidemark.airflow.job import job_file
from tidemark.airflow.upkeep import CompactStateOperator

RUN = "scheduled__1"
SIZE = {"files": 20, "bytes": 900, "changes": 8, "change_bytes": 400, "longest": 4}
SUCCEEDED: dict[str, Any] = {
    "pipeline": "visits",
    "run_id": RUN,
    "outcome": "succeeded",
    "started_at": "2026-11-21T10:00:01Z",
    "ended_at": "2026-11-21T10:00:09Z",
    "queries": {
        "page_1h": {
            "batch": 7,
            "verdict": "due",
            "snapshots": 2,
            "rows": 12,
            "before": SIZE,
            "after": SIZE | {"changes": 0, "change_bytes": 0, "longest": 0},
            "seconds": 1.5,
        }
    },
}
REFUSED = {"class": "CompactionRefused", "message": "a join", "retry_can_help": False}


def told(verdict: str) -> dict[str, Any]:
    """What the state check pushes."""
    return {"ingest": {"verdict": "healthy"}, "page_1h": {"verdict": verdict}}


@pytest.fixture
def operator(
    write_pipeline: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CompactStateOperator:
    """Its spark-submit leaves what `plan` says."""
    binary = tmp_path / "spark-submit"
    binary.write_text(SUBMIT.format(python=sys.executable, plan=str(tmp_path / "plan.json")))
    binary.chmod(0o755)
    connection = {"conn_type": "spark", "host": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return CompactStateOperator(
        task_id="compact_state",
        checked=told("due"),
        pipeline_file=str(write_pipeline("visits")),
        conn_id="spark_default",
        spark_binary=str(binary),
    )


def plan(folder: Path, result: dict[str, Any], exit_status: int = 0) -> None:
    seen = str(folder / "seen.json")
    asked = {"result": json.dumps(result), "exit": exit_status, "hang": None, "seen": seen}
    (folder / "plan.json").write_text(json.dumps(asked))


def execute(operator: CompactStateOperator) -> dict[str, Any]:
    context: Any = {"run_id": RUN, "ti": SimpleNamespace(try_number=1)}
    return operator.execute(context)


@pytest.mark.parametrize("verdict", ["healthy", "unknown"])
def test_what_is_not_due_is_skipped_and_nothing_is_submitted(
    operator: CompactStateOperator, tmp_path: Path, verdict: str
) -> None:
    plan(tmp_path, SUCCEEDED)
    operator.checked = told(verdict) | {"other": None}
    with pytest.raises(AirflowSkipException):
        execute(operator)
    assert not (tmp_path / "seen.json").exists()


@pytest.mark.parametrize("verdict", ["due", "overdue"])
def test_what_is_due_is_submitted_under_a_run_id_of_its_own(
    operator: CompactStateOperator, tmp_path: Path, verdict: str
) -> None:
    plan(tmp_path, SUCCEEDED)
    operator.checked = told(verdict)
    pushed = execute(operator)
    figures = {"snapshots": 2, "chain_before": 4, "chain_after": 0, "seconds": 1.5}
    assert pushed["tables"] == {"page_1h": figures}
    submitted = json.loads((tmp_path / "seen.json").read_text())
    assert job_file(CompactStateOperator.request_type.job) in submitted
    assert submitted[submitted.index("--run-id") + 1] == f"compaction__{RUN}"
    assert pushed["result"].endswith("compaction__scheduled__1--try1.json")


def test_a_refused_compaction_fails_for_good(
    operator: CompactStateOperator, tmp_path: Path
) -> None:
    plan(tmp_path, SUCCEEDED | {"outcome": "failed", "queries": {}, "error": REFUSED}, 1)
    with pytest.raises(AirflowFailException, match="CompactionRefused: a join"):
        execute(operator)


def test_what_the_state_check_pushes_is_rendered() -> None:
    assert "checked" in CompactStateOperator.template_fields
