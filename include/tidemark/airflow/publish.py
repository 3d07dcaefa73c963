"""The task that publishes what a held run pinned, without a JVM."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from tidemark.airflow.assets import tell_changed
from tidemark.airflow.outcome import as_task_failure, failure
from tidemark.airflow.pipeline_operator import PipelineOperator
from tidemark.errors import ChecksFailed
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result


class PublishOperator(PipelineOperator):
    """Publishes a run into gold: one commit for each table, safe to repeat.

    `result` is the place of the run's result file, usually from the stream task's XCom. A run that
    its checks keep back is not published, whatever state the task before is set to. The file gets
    gold's versions and the seconds. Gold's versions and the windows published go to XCom, by table.
    Of its outlets, gold tables, those get an event that this run changed, also where an earlier try
    had committed the change; the event's extra tells the range of windows.
    """

    template_fields = ("result",)

    def __init__(self, *, result: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.result = result

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish; a repeat finds nothing to do."""
        # delta-rs and Arrow, which parsing a Dag must not load.
        from tidemark.runs.publish_held import publish_and_record

        with as_task_failure("Publishing"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            held = read_result(RunResult, self.result, settings.storage_options)
            # An override has a reason and is recorded: marking a task as a success is none.
            if held.error is not None and held.error.type == ChecksFailed.__name__:
                raise failure("Validation", held.error)
            published = publish_and_record(pipeline, held, self.result, settings)
        if published.error is not None:
            raise failure("Publishing", published.error)
        self._tell(published)
        tables = published.tables.items()
        tell_changed(self, context, published.run_id, {name: t.published for name, t in tables})
        return {name: {"gold": t.gold, "windows": t.published_windows} for name, t in tables}

    def _tell(self, published: RunResult) -> None:
        for name, table in published.tables.items():
            self.log.info(
                "%s: %s windows published, gold is at version %s",
                name,
                table.published_windows,
                table.gold,
            )
