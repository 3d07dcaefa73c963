"""Callbacks of a failed and of a recovered run, with the run's facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from tests.airflow.test_stream_operator import RUN, SUCCEEDED, failed
from tidemark.airflow import RunFacts, pipeline_dags

Write = Callable[..., Path]
STATES = {"stream": "success", "publish": "failed", "state_check": "success", "watcher": "failed"}


def context(before: str | None = None) -> dict[str, Any]:
    """What Airflow gives to the callbacks of a Dag run, as far as it is used."""
    run = SimpleNamespace(state=before) if before else None
    task = SimpleNamespace(
        dag_id="visits",
        get_task_states=lambda dag_id, run_ids: {run_ids[0]: STATES},
        get_previous_dagrun=lambda: run,
    )
    return {"run_id": RUN, "ti": task}


def leave(folder: Path, try_number: int, result: dict[str, Any]) -> None:
    results = folder / "root" / "visits" / "results"
    results.mkdir(parents=True, exist_ok=True)
    name = f"manual__2026-11-21T10_00_00_00_00--try{try_number}.json"
    (results / name).write_text(json.dumps(result))


def callbacks(**given: Any) -> tuple[Callable[..., None] | None, Callable[..., None] | None]:
    dag: Any = pipeline_dags(**given)["visits"]
    return dag.on_failure_callback, dag.on_success_callback


class Note(BaseNotifier):
    """A notifier as Airflow's providers have them."""

    template_fields: Sequence[str] = ("text",)

    def __init__(self, text: str, into: list[str]) -> None:
        super().__init__()
        self.text, self.into = text, into

    def notify(self, context: Any) -> None:
        self.into.append(self.text)


def test_a_failed_run_is_told_with_its_tasks_and_the_result_of_its_newest_try(
    write_pipeline: Write, tmp_path: Path
) -> None:
    write_pipeline("visits")
    leave(tmp_path, 9, SUCCEEDED)
    leave(tmp_path, 10, failed(retry_can_help=False))
    told: list[RunFacts] = []
    on_failure, _ = callbacks(on_failure=lambda context: told.append(context["tidemark"]))
    assert on_failure is not None
    on_failure(context())
    (facts,) = told
    assert (facts.pipeline, facts.run_id, facts.failed) == ("visits", RUN, ("publish",))
    assert facts.result is not None
    assert facts.result.error is not None
    assert facts.text == f"visits: run {RUN} failed: publish\nRunFailed: batch 7 broke"


def test_a_failed_run_without_a_task_is_told_as_failed(write_pipeline: Write) -> None:
    write_pipeline("visits")
    told: list[RunFacts] = []
    on_failure, _ = callbacks(on_failure=lambda context: told.append(context["tidemark"]))
    assert on_failure is not None
    on_failure({"run_id": RUN, "reason": "timed_out"})
    assert told[0].failed, "a mail that asks for it would say that it is well again"
    assert told[0].text == f"visits: run {RUN} failed: no task that is known"


def test_a_run_that_was_cleared_is_told_by_the_try_that_ended_last(
    write_pipeline: Write, tmp_path: Path
) -> None:
    """In a shared Dag two tasks count tries, each from where it is."""
    write_pipeline("visits")
    leave(tmp_path, 3, failed(retry_can_help=True))
    leave(tmp_path, 2, SUCCEEDED | {"ended_at": "2026-11-21T11:00:09Z"})
    told: list[RunFacts] = []
    on_failure, _ = callbacks(on_failure=lambda context: told.append(context["tidemark"]))
    assert on_failure is not None
    on_failure(context())
    assert told[0].text.startswith(f"visits: run {RUN} failed: publish\n10 rows read")


def test_a_notifiers_templates_see_the_facts(write_pipeline: Write, tmp_path: Path) -> None:
    write_pipeline("visits")
    leave(tmp_path, 1, SUCCEEDED)
    told: list[str] = []
    note = Note("{{ tidemark.pipeline }}: {{ tidemark.result.rows.accepted }} rows", told)
    on_failure, _ = callbacks(on_failure=note)
    assert on_failure is not None
    on_failure(context())
    assert told == ["visits: 8 rows"]


@pytest.mark.parametrize(("before", "times"), [("failed", 1), ("success", 0), (None, 0)])
def test_only_the_first_success_after_a_failure_is_a_recovery(
    write_pipeline: Write, tmp_path: Path, before: str | None, times: int
) -> None:
    write_pipeline("visits")
    leave(tmp_path, 1, SUCCEEDED)
    told: list[RunFacts] = []
    _, on_recovery = callbacks(on_recovery=lambda context: told.append(context["tidemark"]))
    assert on_recovery is not None
    on_recovery(context(before))
    assert len(told) == times
    for facts in told:
        assert facts.text.startswith(f"visits: run {RUN} succeeded again\n10 rows read")


def test_people_are_told_though_the_store_cannot_be_read_and_another_callback_fails(
    write_pipeline: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pipeline("visits")
    told: list[RunFacts] = []

    def broken(context: Any) -> None:
        raise RuntimeError

    dag: Any = pipeline_dags(on_failure=[broken, lambda context: told.append(context["tidemark"])])
    (tmp_path / "root").touch()
    dag["visits"].on_failure_callback(context())
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(tmp_path / "gone.yaml"))
    dag["visits"].on_failure_callback(context())
    assert [(facts.failed, facts.result) for facts in told] == [(("publish",), None)] * 2


def test_a_dag_without_callbacks_has_none(write_pipeline: Write) -> None:
    write_pipeline("visits")
    assert callbacks() == (None, None)
