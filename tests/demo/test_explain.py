"""A Dag run that failed is explained by the last error in the log of the task that failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo.api import DagRun, TaskState
from demo.environment import AirflowHome
from demo.runs import explain

ERRORS = ["StorageUnavailable", "PipelineChanged"]
RAISED = [{"error_detail": [{"exc_type": name, "exc_value": "No."}]} for name in ERRORS]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ([json.dumps(entry) for entry in RAISED], "PipelineChanged: No."),
        ([json.dumps(RAISED[0]), '{"cut'], "StorageUnavailable: No."),
        ([], "no error in its log"),
    ],
)
def test_the_last_error_of_the_failed_task_and_its_log_are_told(
    tmp_path: Path, written: list[str], told: str
) -> None:
    log = tmp_path / "logs/dag_id=clicks/run_id=one/task_id=stream/attempt=2.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(written))
    tasks = [("stream", "failed", 2), ("publish", "upstream_failed", 0), ("watcher", "failed", 1)]
    run = DagRun("clicks", "one", "failed", tuple(TaskState(*task, None) for task in tasks))
    assert explain(run, AirflowHome(tmp_path, 0, "")).splitlines() == [
        "clicks, run one: failed",
        f"  stream, try 2: {told}",
        f"  log: {log}",
    ]
