"""The task that fails where another one of its Dag run failed: by it the run's state is decided.

Airflow decides a Dag run's state by its last tasks alone, and the last ones here run whatever came
before. Where nothing failed the scheduler skips this one: no process is started for it.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context, TriggerRule
from airflow.sdk.exceptions import AirflowFailException

WATCHER = "watcher"
# In a Dag whose groups have names of pipelines, which have no hyphen.
SHARED_WATCHER = "shared-watcher"


class WatcherOperator(BaseOperator):
    """Fails with the names of the tasks that failed; to stand behind all tasks of a Dag."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "trigger_rule": TriggerRule.ONE_FAILED, "retries": 0})

    def execute(self, context: Context) -> None:
        """Raise AirflowFailException."""
        names = ", ".join(failed_tasks(context))
        raise AirflowFailException(f"The run failed, because of: {names}. Their logs say why.")


def failed_tasks(context: Context, run_id: str | None = None) -> list[str]:
    """The tasks of a run of this Dag that failed, without those that had no chance and the watcher.
    Without a `run_id`: of this run."""
    run_id = run_id or str(context["run_id"])
    task = context["ti"]
    states = task.get_task_states(dag_id=task.dag_id, run_ids=[run_id]).get(run_id, {})
    return [
        name
        for name, state in states.items()
        if state == "failed" and name not in (WATCHER, SHARED_WATCHER)
    ]
