"""A pipeline's tasks as a group in a Dag that people already have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import TaskGroup

from tidemark.airflow.tasks import pipeline_tasks, settings_of, task_defaults
from tidemark.pipeline.load import find_pipeline_file, load_pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import load_settings


class PipelineTaskGroup(TaskGroup):
    """The tasks of one pipeline, to be used inside a Dag: `PipelineTaskGroup("ad_impressions")`.

    `pipeline` is the name of a file in the settings' folder of pipelines, or a file's path.
    `settings` is the settings file; without it, the one that `load_settings` finds, also when a
    task runs. A `root` that is given goes before theirs. `default_args` go before the Dag's, and
    those before Tidemark's own.

    What follows the group waits for its `publish`, and runs only if that succeeded. The tasks after
    `publish` run whatever happened, and neither hold up what follows nor decide the run's state.
    The Dag says when it runs: `max_active_runs=1` and `catchup=False` are advised, and runs that
    overlap wait for each other by retrying. Raises PipelineNotFound, PipelineInvalid or
    SettingsInvalid, which Airflow shows as the Dag file's import error.
    """

    def __init__(
        self,
        pipeline: str | Path,
        *,
        conn_id: str = "spark_default",
        settings: str | Path | None = None,
        root: str | Path | None = None,
        group_id: str | None = None,
        default_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        used = load_settings(settings, root=root)
        path = find_pipeline_file(str(pipeline), used).absolute()
        loaded = load_pipeline(path)
        super().__init__(group_id=group_id or loaded.name, **kwargs)
        # The Dag's go before ours, which Airflow would take for more particular ones.
        given = {**self.dag.default_args, **self.default_args, **(default_args or {})}
        self.default_args = {**task_defaults(used), **given}
        files: dict[str, Any] = {"pipeline_file": str(path), **settings_of(settings, root, used)}
        files["of_group"] = f"{self.dag.dag_id}.{self.group_id}"
        with self:
            pipeline_tasks(loaded, Places(used.root, loaded.name), conn_id, **files)
