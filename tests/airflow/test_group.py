"""A pipeline's tasks in a Dag of somebody else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from tests.airflow.between_runs import checkpoints_of, upkeep_rows
from tidemark.airflow import PipelineTaskGroup, pipeline_dags
from tidemark.errors import PipelineNotFound
from tidemark.pipeline.settings.settings import load_settings

Write = Callable[..., Path]
RUN = "scheduled__2026-11-21T10:00:00+00:00"


def test_what_follows_a_group_waits_for_its_publish_alone(write_pipeline: Write) -> None:
    write_pipeline("visits")
    with DAG("mine", schedule=None) as dag:
        before, after = BaseOperator(task_id="before"), BaseOperator(task_id="after")
        before >> PipelineTaskGroup("visits") >> after
    assert dag.get_task("visits.stream").upstream_task_ids == {"before"}
    assert after.upstream_task_ids == {"visits.publish"}
    assert not dag.get_task("visits.stream").followers, "what follows would be skipped too"
    upkeep = [dag.get_task(f"visits.{name}") for name in ("checkpoint_housekeeping", "state_check")]
    assert [(task.is_teardown, task.on_failure_fail_dagrun) for task in upkeep] == [
        (True, False),
        (True, False),
    ]


def test_the_dags_default_args_go_before_ours_and_the_groups_before_both(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    hour = timedelta(hours=1)
    with DAG("mine", schedule=None, default_args={"retries": 7, "owner": "me"}):
        group = PipelineTaskGroup("visits", default_args={"owner": "us", "execution_timeout": hour})
    for task in group:
        assert (task.retries, task.owner, task.execution_timeout) == (7, "us", hour)
        assert task.retry_delay == timedelta(seconds=60)


def test_a_group_takes_a_file_from_anywhere_and_a_name_of_its_own(
    write_pipeline: Write, tmp_path: Path
) -> None:
    file = write_pipeline("visits").rename(tmp_path / "hits.yaml")
    with DAG("mine", schedule=None) as dag:
        PipelineTaskGroup(file, group_id="web")
    assert dag.get_task("web.stream").pipeline_file == str(file)


def test_a_run_of_a_group_is_none_of_another_dag_of_the_schedule_nor_of_another_group(
    write_pipeline: Write, tmp_path: Path
) -> None:
    """Airflow gives runs of one time the same id in each Dag; a run ends earlier tries of it."""
    write_pipeline("visits", schedule="@hourly")
    checkpoints_of(tmp_path / "root", "aggregate", "aggregate")
    with DAG("mine", schedule="@hourly") as dag:
        PipelineTaskGroup("visits")
        PipelineTaskGroup("visits", group_id="again")
    own, settings = pipeline_dags()["visits"], load_settings()
    context: Any = {"run_id": RUN, "ti": SimpleNamespace(try_number=1)}
    for name in ("stream", "compact_state"):
        tasks = [own.get_task(name), *(dag.get_task(f"{of}.{name}") for of in ("visits", "again"))]
        assert len({task.job_run_id(context) for task in tasks}) == 3
        assert len({task.result_place(context, settings) for task in tasks}) == 3
    assert own.get_task("stream").job_run_id(context) == RUN
    assert dag.get_task("visits.stream").job_run_id(context) == f"mine.visits__{RUN}"
    for name in ("checkpoint_housekeeping", "state_check"):
        dag.get_task(f"visits.{name}").execute(context)
    assert {row["run"] for row in upkeep_rows(tmp_path / "root")} == {f"mine.visits__{RUN}"}


def test_a_group_of_no_pipeline_names_those_that_there_are(write_pipeline: Write) -> None:
    write_pipeline("visits")
    with DAG("mine", schedule=None), pytest.raises(PipelineNotFound, match="visits"):
        PipelineTaskGroup("vists")
