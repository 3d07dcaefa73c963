"""The demo waits as long as something advances, and tells what is new."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from demo.api import DagRun, TaskState
from demo.environment import AirflowHome, DemoFailed
from demo.runs import run_all, wait_until
from demo.screen import _News


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes each time that the clock is asked."""
    seconds = count()
    monkeypatch.setattr("demo.runs.time.monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr("demo.runs.time.sleep", lambda _: None)


def test_it_waits_however_long_while_something_advances() -> None:
    looks, lengths = count(), count()
    wait_until(lambda: next(looks) > 5_000, lambda: next(lengths), "The end", patience=3)


def test_it_gives_up_once_nothing_advances_and_says_so() -> None:
    lengths = iter([0, *range(1_000)])
    with pytest.raises(DemoFailed, match=r"The end did not happen, and for 300 s nothing advanced"):
        wait_until(lambda: False, lambda: next(lengths, 999), "The end")
    assert next(lengths, None) is None, "it gave up while something advanced"


def test_it_gives_up_at_once_where_waiting_is_useless() -> None:
    def check() -> None:
        raise DemoFailed("The scheduler ended.")

    with pytest.raises(DemoFailed, match="scheduler"):
        wait_until(lambda: False, check, "The end")


class _Api:
    """Answers with one state of a run after the other, as Airflow's API does."""

    def __init__(self, states: list[DagRun]) -> None:
        self._states = iter(states)

    def unpause(self, dag: str) -> None: ...

    def trigger(self, *_: object) -> None: ...

    def run(self, dag: str, run_id: str) -> DagRun:
        return next(self._states)


def test_its_lines_are_what_is_new_and_not_each_state_of_each_task(tmp_path: Path) -> None:
    log = tmp_path / "logs/dag_id=clicks/run_id=one/task_id=stream/attempt=1.log"
    log.parent.mkdir(parents=True)
    said = ["ingest …", "ingest batch 0: 5 rows in 1.0 s"]
    entries = [{"event": f"2026-07-01T00:00:00Z clicks: {line}"} for line in said]
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    tasks = ("stream", "publish", "watcher")
    of_tasks = [
        (None, None, None),
        ("scheduled", None, None),
        ("queued", None, None),
        *[("running", None, None)] * 20,
        ("success", "scheduled", None),
        ("success", "queued", None),
        ("success", "running", None),
        ("success", "up_for_retry", None),
        ("success", "running", None),
        ("success", "success", "skipped"),
    ]
    runs = [
        DagRun(
            "clicks",
            "one",
            "success" if states[2] else "running",
            tuple(TaskState(*pair, 1, None) for pair in zip(tasks, states, strict=True)),
        )
        for states in of_tasks
    ]
    told: list[str] = []
    api: object = _Api(runs)
    home = AirflowHome(tmp_path, 0, "")
    run_all(api, ["clicks"], "one", None, lambda: None, _News(told.append), home)  # type: ignore[arg-type]
    assert told == [
        f"  clicks: stream · {said[-1]}",
        "  clicks: publish",
        "  clicks: publish up_for_retry",
        "  clicks: success",
    ]
