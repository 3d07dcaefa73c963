"""The Dag files that the page on Airflow shows are Dag files that work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.end_to_end.pages import example_after, page
from tidemark.airflow import pipeline_dags

Write = Callable[..., Path]
SUFFIXES = ("", "__backfill", "__migrate", "__rewind", "__retract", "__maintenance")
ALL_DAGS = [f"ad_impressions{suffix}" for suffix in SUFFIXES]


def dags_of(example: str, of: str = "airflow.md") -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(example_after(page(of), example), example, "exec"), found)
    return {name: value for name, value in found.items() if isinstance(value, DAG)}


def test_default_args_of_the_example_reach_the_tasks(write_pipeline: Write) -> None:
    write_pipeline("ad_impressions")
    dags = dags_of("default_args")
    assert list(dags) == ALL_DAGS
    stream = dags["ad_impressions"].get_task("stream")
    assert (stream.execution_timeout, stream.retries) == (timedelta(hours=12), 5)


def test_the_group_of_the_example_stands_before_what_needs_it(write_pipeline: Write) -> None:
    write_pipeline("ad_impressions")
    (dag,) = dags_of("group").values()
    assert dag.get_task("send").upstream_task_ids == {"ad_impressions.publish"}


def test_the_example_of_a_shared_session_has_a_dag_for_the_schedule(write_pipeline: Write) -> None:
    write_pipeline("ad_impressions", schedule="@hourly")
    dags = dags_of("shared", "many.md")
    assert list(dags) == [*ALL_DAGS, "shared-hourly"]


def test_the_notifier_of_the_example_is_called_for_both(write_pipeline: Write) -> None:
    write_pipeline("ad_impressions")
    dag = dags_of("alerts")["ad_impressions"]
    assert dag.on_failure_callback is not None
    assert dag.on_success_callback is not None


@pytest.mark.parametrize(
    ("task", "hours"),
    [
        ("stream", 6),
        ("validate", 6),
        ("publish", 0.5),
        ("checkpoint_housekeeping", 0.5),
        ("state_check", 0.5),
    ],
)
def test_the_pages_timeouts_are_those_of_the_tasks(
    write_pipeline: Write, task: str, hours: float
) -> None:
    write_pipeline("ad_impressions")
    timeout = pipeline_dags()["ad_impressions"].get_task(task).execution_timeout
    assert timeout == timedelta(hours=hours)
    told = "6 h" if hours == 6 else "30 min"
    (row,) = [line for line in page("airflow.md").splitlines() if line.startswith(f"| `{task}` |")]
    assert f"| {told} |" in row
