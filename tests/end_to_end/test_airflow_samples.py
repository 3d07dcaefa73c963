"""A full Dag run of each sample, in one real Airflow."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from demo.environment import (
    REPOSITORY,
    airflow_environment,
    prepare_home,
    set_up_environment,
    without,
)
from demo.land import SAMPLES, without_schedule, write_settings
from demo.running import running_airflow
from demo.runs import explain, run_all, wait_until
from demo.screen import Screen
from tests.end_to_end.test_access_log import FILES
from tests.end_to_end.test_access_log import expected as requests
from tests.end_to_end.test_access_log import gold as gold_of_requests
from tests.end_to_end.test_airflow_run import expected, gold
from tests.kit.running import Place
from tidemark.pipeline.yaml_file import read_document

pytestmark = [pytest.mark.process, pytest.mark.long]

DAGS = ("access_log", "ad_impressions")
TASKS = {
    "stream": "success",
    "validate": "success",
    "publish": "success",
    "checkpoint_housekeeping": "success",
    "state_check": "success",
    "compact_state": "skipped",
    "watcher": "skipped",
}


def test_each_sample_runs_whole_and_gold_is_what_the_input_says(tmp_path: Path) -> None:
    root, pipelines = tmp_path / "root", tmp_path / "pipelines"
    settings, home = tmp_path / "settings.yaml", prepare_home(tmp_path / "airflow")
    without_schedule(REPOSITORY / "include" / "pipelines", pipelines)
    write_settings(settings, root, pipelines)
    named = {**without(set_up_environment(), "TIDEMARK_"), "TIDEMARK_SETTINGS": str(settings)}
    impressions = SAMPLES / "ad_impressions" / "trigger-1.json"
    for dag, files in zip(DAGS, (FILES, [impressions]), strict=True):
        (root / "landing" / dag).mkdir(parents=True)
        for file in files:
            shutil.copy(file, root / "landing" / dag)
    environment = airflow_environment(named, home, quick=True)
    with running_airflow(Screen(Console()), home, environment) as (services, api):
        for dag in DAGS:
            wait_until(lambda dag=dag: api.knows(dag), services.check, dag)
        now = datetime.now(UTC)
        runs = run_all(api, DAGS, "whole", now, services.check, lambda *_: None, home)
    for run in runs:
        assert {task.task: task.state for task in run.tasks} == TASKS, explain(run, home)
    assert gold(root) == expected(after_trigger=1)
    content = read_document(pipelines / "access_log.yaml").content
    assert gold_of_requests(Place(root, content, "access_log")) == requests(FILES)
