"""Tasks that read the settings, or act on one pipeline; by themselves in Airflow's own
process, without a JVM."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException

from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.connections import airflow_variable
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.runs.acceptance import BY_AIRFLOW
from tidemark.storage.duckdb_bounds import bound_memory


def hand_down_connections(settings: Settings) -> None:
    """Set the variable of each Airflow connection that the settings name, for this task and what
    it starts: Airflow may keep it elsewhere (its database, a secrets backend). One that it does
    not have is told by whoever needs it."""
    for one in settings.connections.values():
        if one.airflow is None or airflow_variable(one.airflow) in os.environ:
            continue
        try:
            found = Connection.get(one.airflow)
        except AirflowNotFoundException:
            continue
        os.environ[airflow_variable(one.airflow)] = found.as_json()


def started_by(context: Context) -> dict[str, str]:
    """Who started a task's Dag run, and its Dag: as a run notes it, and a job is asked."""
    dag_run = context["dag_run"]
    user = dag_run.triggering_user_name
    return {"by": f"{user}{BY_AIRFLOW}" if user else "Airflow", "dag": dag_run.dag_id}


class SettingsOperator(BaseOperator):
    """Knows the settings' file, which is read when the task runs.

    Without `settings_file` the settings are those that `load_settings` finds; a `root` goes before
    theirs. Without an `execution_timeout` the operator's own `timeout` holds.
    """

    timeout: ClassVar[timedelta] = timedelta(minutes=30)

    def __init__(
        self,
        *,
        settings_file: str | None = None,
        root: str | None = None,
        execution_timeout: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(execution_timeout=execution_timeout or self.timeout, **kwargs)
        self.settings_file = settings_file
        self.root = root

    def own_settings(self) -> Settings:
        """Raises SettingsInvalid: a task's `as_task_failure` tells of it."""
        settings = load_settings(self.settings_file, root=self.root)
        bound_memory(settings.duckdb)
        hand_down_connections(settings)
        return settings


class PipelineOperator(SettingsOperator):
    """Knows its pipeline's file too, which is read when the task runs. `of_group` names somebody's
    Dag and group where it is a task of that."""

    def __init__(self, *, pipeline_file: str, of_group: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline_file = pipeline_file
        self.of_group = of_group

    def own_run_id(self, context: Context) -> str:
        """The id of the run, as the pipeline knows it. In each Dag of a schedule Airflow gives its
        runs the same, and by it the lease takes over from an earlier try."""
        run_id = str(context["run_id"])
        return f"{self.of_group}__{run_id}" if self.of_group else run_id

    def own_pipeline(self) -> Pipeline:
        """Raises PipelineInvalid: a task's `as_task_failure` tells of it."""
        return load_pipeline(Path(self.pipeline_file))
