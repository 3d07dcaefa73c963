from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, CronTriggerTimetable

from tidemark.airflow import (
    PipelineTaskGroup,
    gold_asset,
    pipeline_dags,
    raise_invalid_pipelines,
)
from tidemark.errors import PipelineInvalid, PipelineNotFound, SettingsInvalid

REPOSITORY = Path(__file__).resolve().parents[2]
Write = Callable[..., Path]

BROKEN = "source: {}\n"
# What takes seconds to import, in a process that Airflow starts again and again.
HEAVY = ("pyspark", "pandas", "deltalake", "pyarrow", "duckdb", "great_expectations", "numpy")
PARSE = """
import json, sys, time
import airflow.sdk
import airflow.providers.apache.spark.operators.spark_submit
began = time.process_time()
import runpy
found = runpy.run_path(sys.argv[1])
print(json.dumps({"seconds": time.process_time() - began, "modules": list(sys.modules),
                  "dags": [n for n, v in found.items() if isinstance(v, airflow.sdk.DAG)]}))
"""


def dags_of(pipeline: str) -> list[str]:
    return [
        f"{pipeline}{ending}"
        for ending in ("", "__backfill", "__migrate", "__rewind", "__retract", "__maintenance")
    ]


def test_a_dag_is_made_for_each_valid_file_and_none_for_a_broken_one(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    write_pipeline("hits")
    write_pipeline("broken", BROKEN)
    assert sorted(pipeline_dags()) == sorted(
        f"{name}{ending}"
        for name in ("hits", "visits")
        for ending in ("", "__backfill", "__migrate", "__rewind", "__retract", "__maintenance")
    )


def test_a_file_that_would_blow_up_the_processor_takes_no_other_dag_out(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("visits")
    write_pipeline("deep", "a: " + "[" * 400 + "]" * 400)
    write_pipeline("nested", "a: 1\nb: " + "{a: " * 400 + "1" + "}" * 400)
    bomb = "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))
    write_pipeline("bomb", f"a0: &a0 [x,x,x,x,x,x,x,x,x]\n{bomb}")
    assert list(pipeline_dags()) == dags_of("visits")
    with pytest.raises(PipelineInvalid, match="3 of 4 pipeline files"):
        raise_invalid_pipelines()


def test_a_file_of_which_no_dag_can_be_made_takes_no_other_out(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("hits")
    write_pipeline("visits")

    def some(pipeline: Any, places: Any) -> str:
        if pipeline.name == "hits":
            raise MemoryError
        return ""

    monkeypatch.setattr("tidemark.airflow.dags.describe", some)
    assert list(pipeline_dags()) == dags_of("visits")


def test_a_folder_given_goes_before_that_of_the_settings(
    write_pipeline: Write, tmp_path: Path
) -> None:
    file = write_pipeline("visits")
    other = tmp_path / "other"
    other.mkdir()
    (other / "hits.yaml").write_text(file.read_text())
    assert list(pipeline_dags(other)) == dags_of("hits")


def test_a_dag_says_what_its_pipeline_does(write_pipeline: Write) -> None:
    write_pipeline("visits", owner="web", schedule="@hourly")
    dag = pipeline_dags()["visits"]
    assert isinstance(dag.timetable, CronTriggerTimetable)
    assert dag.description == "Visits, one | a line"
    assert r"Visits\, one \| a line" in str(dag.doc_md)
    row = r"| page\_1h | 1 hour\, every 30 minutes | page | visits = `count(*)` |"
    assert row in str(dag.doc_md)
    assert "watermark**: delay 10 minutes" in str(dag.doc_md)
    assert {task.owner for task in dag.tasks} == {"web"}


def test_a_dag_runs_once_at_a_time_never_catches_up_and_allows_no_backfill(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    dag = pipeline_dags()["visits"]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert dag.allowed_run_types is not None
    assert "backfill" not in {kind.value for kind in dag.allowed_run_types}
    assert "manual" in {kind.value for kind in dag.allowed_run_types}


def test_the_tasks_stand_in_a_row_and_publish_announces_every_gold_table(
    write_pipeline: Write, tmp_path: Path
) -> None:
    write_pipeline("visits")
    tasks = pipeline_dags()["visits"].tasks
    assert [task.task_id for task in tasks] == [
        *("stream", "validate", "publish"),
        *("checkpoint_housekeeping", "state_check", "compact_state", "watcher"),
    ]
    upstream = {after.task_id: {before.task_id} for before, after in pairwise(tasks[:-1])}
    # It publishes the result that the stream left.
    upstream["publish"] |= {"stream"}
    assert {task.task_id: task.upstream_task_ids for task in tasks[1:-1]} == upstream
    assert [task.is_teardown for task in tasks] == [*[False] * 3, *[True] * 3, False]
    # The watcher is skipped by the scheduler, where none of these failed.
    assert list(tasks[0].followers) == [task.task_id for task in tasks[1:-1]]
    (asset,) = tasks[2].outlets
    assert asset.name == "tidemark/visits/page_1h"
    assert asset.uri == (tmp_path / "root/visits/page_1h/gold").as_uri()


def publish_of(pipeline: str) -> Any:
    return pipeline_dags()[pipeline].get_task("publish")


def test_a_dag_that_follows_gold_names_the_asset_that_publish_has(write_pipeline: Write) -> None:
    write_pipeline("visits")
    assert publish_of("visits").outlets == [gold_asset("visits", "page_1h")]


def test_the_watcher_stands_behind_every_task_and_runs_only_where_one_failed(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    *tasks, watcher = pipeline_dags(default_args={"retries": 5})["visits"].tasks
    assert watcher.upstream_task_ids == {task.task_id for task in tasks}
    assert (watcher.trigger_rule, watcher.retries) == ("one_failed", 0)


def test_each_task_has_a_timeout_that_default_args_can_set_and_says_what_it_does(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    dags = pipeline_dags()
    tasks = [*dags["visits"].tasks[:-1], *dags["visits__backfill"].tasks]
    hours = [task.execution_timeout / timedelta(hours=1) for task in tasks]
    assert hours == [6, 6, 0.5, 0.5, 0.5, 6, 6]
    assert all(task.doc_md for task in [*tasks, *dags["visits"].tasks])
    longer = pipeline_dags(default_args={"execution_timeout": timedelta(days=1)})
    for task in [*longer["visits"].tasks, *longer["visits__backfill"].tasks]:
        assert task.execution_timeout == timedelta(days=1)


def test_a_gold_asset_below_a_path_that_is_no_uri_has_a_valid_one(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("visits")
    monkeypatch.setenv("TIDEMARK_ROOT", "/srv/my tables é")
    (asset,) = publish_of("visits").outlets
    assert asset.uri == "file:///srv/my%20tables%20%C3%A9/visits/page_1h/gold"


def test_a_gold_asset_in_a_bucket_has_the_address_of_the_table(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("visits")
    monkeypatch.setenv("TIDEMARK_ROOT", "s3://lake/tidemark")
    (asset,) = publish_of("visits").outlets
    assert asset.uri == "s3://lake/tidemark/visits/page_1h/gold"


def test_retries_outlast_the_lease_of_a_killed_run_unless_default_args_say_otherwise(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("visits")
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "45")
    for task in pipeline_dags()["visits"].tasks[:-1]:
        assert (task.retries, task.retry_delay) == (3, timedelta(seconds=45))
    for task in pipeline_dags(default_args={"retries": 5, "owner": "me"})["visits"].tasks[:-1]:
        assert (task.retries, task.owner) == (5, "me")


def test_a_task_process_makes_only_the_dag_that_it_runs(
    write_pipeline: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("visits")
    write_pipeline("hits")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "hits")
    assert list(pipeline_dags()) == ["hits"]


def test_what_leaves_no_file_a_dag_is_raised(
    write_pipeline: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_pipeline("visits")
    with pytest.raises(PipelineNotFound, match=f"no folder {tmp_path / 'nowhere'}"):
        pipeline_dags(tmp_path / "nowhere")
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(tmp_path / "nowhere.yaml"))
    with pytest.raises(SettingsInvalid, match=r"nowhere\.yaml"):
        pipeline_dags()
    monkeypatch.delenv("TIDEMARK_SETTINGS")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsInvalid, match=r"root: is missing.*TIDEMARK_ROOT"):
        pipeline_dags(file.parent)
    monkeypatch.setenv("TIDEMARK_ROOT", str(tmp_path / "root"))
    with pytest.raises(SettingsInvalid, match="TIDEMARK_PIPELINES"):
        pipeline_dags()


def test_a_folder_that_leaves_no_dag_says_what_in_it_is_not_read(
    write_pipeline: Write, tmp_path: Path
) -> None:
    good = write_pipeline("visits").read_text()
    folder = tmp_path / "mine"
    folder.mkdir()
    assert pipeline_dags(folder) == {}
    (folder / "team").mkdir()
    (folder / "team" / "hits.yml").write_text(good)
    with pytest.raises(PipelineNotFound, match=r"folders below are not read.*team/hits\.yml"):
        pipeline_dags(folder)
    (folder / "BIG.YAML").write_text(good)
    (folder / "views.yaml").mkdir()
    with pytest.raises(PipelineInvalid, match=r"(?s)2 of 2 .*BIG\.YAML.*views\.yaml"):
        pipeline_dags(folder)
    with pytest.raises(PipelineInvalid, match=r"(?s)2 of 2 .*BIG\.YAML.*views\.yaml"):
        raise_invalid_pipelines(folder)
    (folder / "hits.yaml").write_text(good)
    assert list(pipeline_dags(folder)) == dags_of("hits")
    with pytest.raises(PipelineInvalid, match="2 of 3"):
        raise_invalid_pipelines(folder)


def test_a_root_that_is_given_is_absolute(write_pipeline: Write) -> None:
    folder = write_pipeline("visits").parent
    for make in (
        lambda: pipeline_dags(folder, root="lake"),
        lambda: PipelineTaskGroup(folder / "visits.yaml", root="./lake"),
        lambda: gold_asset("visits", "page_1h", root="../lake"),
    ):
        with pytest.raises(SettingsInvalid, match="is relative"):
            make()


def test_a_folder_and_a_root_need_no_settings_and_the_others_go_on_beside_a_broken_file(
    write_pipeline: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_pipeline("visits").parent
    write_pipeline("broken", BROKEN)
    monkeypatch.delenv("TIDEMARK_SETTINGS")
    monkeypatch.chdir(tmp_path)
    root = str(tmp_path / "lake")
    dags = pipeline_dags(folder, root=root)
    assert list(dags) == dags_of("visits")
    tasks = [task for dag in dags.values() for task in dag.tasks if task.task_id != "watcher"]
    assert {task.own_settings().root for task in tasks} == {root}
    (asset,) = dags["visits"].get_task("publish").outlets
    assert asset == gold_asset("visits", "page_1h", root=root)
    with DAG("mine", schedule=None):
        group = PipelineTaskGroup(folder / "visits.yaml", root=root)
    assert {task.own_settings().root for task in group.children.values()} == {root}
    with pytest.raises(PipelineInvalid, match="1 of 2"):
        raise_invalid_pipelines(folder)


def test_a_root_that_is_given_goes_before_the_settings(
    write_pipeline: Write, tmp_path: Path
) -> None:
    write_pipeline("visits")
    task = pipeline_dags(root=tmp_path / "lake")["visits"].get_task("stream")
    assert task.own_settings().root == str(tmp_path / "lake")
    assert task.root == str(tmp_path / "lake")


def test_one_error_lists_all_invalid_files_with_all_that_is_wrong_in_each(
    write_pipeline: Write,
) -> None:
    write_pipeline("visits")
    first = write_pipeline("first", BROKEN)
    second = write_pipeline("second", "tables: 1\n")
    with pytest.raises(PipelineInvalid) as raised:
        raise_invalid_pipelines()
    message = str(raised.value)
    assert message.startswith(f"2 of 3 pipeline files in {first.parent} cannot be used")
    assert str(first) in message
    assert str(second) in message
    assert message.count("watermark") == 2, "a missing key of each file"


def test_valid_files_raise_nothing(write_pipeline: Write) -> None:
    write_pipeline("visits")
    raise_invalid_pipelines()


def test_a_missing_folder_is_told_with_its_name(write_pipeline: Write, tmp_path: Path) -> None:
    with pytest.raises(PipelineNotFound, match=f"no folder {tmp_path / 'nowhere'}"):
        raise_invalid_pipelines(tmp_path / "nowhere")


def test_unusable_settings_are_told(
    write_pipeline: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(tmp_path / "nowhere.yaml"))
    with pytest.raises(SettingsInvalid, match=r"nowhere\.yaml"):
        raise_invalid_pipelines()


@pytest.mark.slow
def test_parsing_the_samples_dags_is_quick_and_loads_no_engine() -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "include")}
    environment["TIDEMARK_SETTINGS"] = str(REPOSITORY / "include" / "settings.yaml")
    parsed = subprocess.run(
        [sys.executable, "-c", PARSE, str(REPOSITORY / "dags" / "pipelines.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(parsed.stdout.splitlines()[-1])
    assert {"access_log", "ad_impressions"} <= set(told["dags"])
    assert not set(HEAVY) & set(told["modules"])
    # Of the processor, so that it holds on a busy machine; 0.9 s where it was measured.
    assert told["seconds"] < 2
