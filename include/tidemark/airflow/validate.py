"""The tasks that hold what a run would publish to its pipeline's checks, and publish what it
pinned, without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowFailException

from tidemark.airflow.assets import tell_changed
from tidemark.airflow.outcome import as_task_failure, failure
from tidemark.airflow.pipeline_operator import PipelineOperator
from tidemark.errors import ChecksFailed
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.verdicts import (
    ValidationResult,
    failures,
    verdict_line,
    warnings,
)
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result, write_result


class DataDocsLink(BaseOperatorLink):
    """The Data Docs of the run that a task validated, beside the task in Airflow's UI.

    No link where no expectation ran. Airflow asks for it when the task ends, well or badly.
    """

    name = "Data Docs"

    def get_link(self, operator: ValidateOperator, *, ti_key: Any) -> str:  # type: ignore[override]
        return operator.data_docs or ""


class ValidateOperator(PipelineOperator):
    """Validates a held run, and fails for good where a check keeps it from being published.

    `held` is the place of the run's result file, usually from the stream task's XCom. How many
    checks ran, which gave a warning, and where the Data Docs begin go to XCom; each verdict to
    `ops/quality`.
    """

    template_fields = ("held",)
    operator_extra_links = (DataDocsLink(),)
    # Where the pages of the run begin, for a browser; None until they are known.
    data_docs: str | None = None
    timeout = timedelta(hours=6)

    def __init__(self, *, held: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.held = held

    def execute(self, context: Context) -> dict[str, Any]:
        """Validate; a repeat judges again, and records nothing that it has recorded."""
        from tidemark.quality.gate import validate_held

        with as_task_failure("Validation"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            run = _result_of_stream(self.held, settings)
            found = validate_held(pipeline, run, self.held, settings, datetime.now(UTC)).validation
            # Never that of the run, whose result file would be overwritten.
            uri = Places(settings.root, pipeline.name).result(
                f"validate__{self.own_run_id(context)}", context["ti"].try_number
            )
            write_result(uri, found, settings.storage_options)
            # Also where the task fails then: a failed check is what people want to look at.
            self.data_docs = settings.docs_address(found.data_docs) if found.data_docs else None
        _log_verdicts(self.log, found)
        if found.error is not None:
            raise failure("Validation", found.error)
        return {
            "result": uri,
            "checks": len(found.verdicts),
            "warnings": [verdict_line(verdict) for verdict in warnings(found.verdicts)],
            "data_docs": found.data_docs,
        }


def _result_of_stream(place: str | None, settings: Settings) -> RunResult:
    if not place:
        raise AirflowFailException(
            "`stream` has left no result, as where it was marked as a success by hand. Nothing was "
            "validated or published, and gold is as it was. Clear it together with the tasks after "
            "it, or wait: the next run publishes what this one left."
        )
    return read_result(RunResult, place, settings.storage_options)


def _log_verdicts(log: Any, found: ValidationResult) -> None:
    for verdict in found.verdicts:
        failed = "failed" if verdict in failures([verdict]) else "warning"
        log.info("%s: %s", "kept" if verdict.passed else failed, verdict_line(verdict))
    if found.data_docs:
        log.info("Data Docs: %s", found.data_docs)


class PublishOperator(PipelineOperator):
    """Publishes a run into gold: one commit for each table, safe to repeat.

    `result` is the place of the run's result file, usually from the stream task's XCom. A run that
    its checks keep back is not published, and one that no validation has passed yet is validated
    first, whatever state the task before is set to. The file gets gold's versions and the seconds.
    Gold's versions and the windows published go to XCom, by table.
    Of its outlets, gold tables, those get an event that this run changed, also where an earlier try
    had committed the change; the event's extra tells the range of windows.
    """

    template_fields = ("result",)

    def __init__(self, *, result: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.result = result

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish; a repeat finds nothing to do."""
        from tidemark.quality.gate import validate_held
        from tidemark.runs.publish_held import publish_and_record

        with as_task_failure("Publishing"):
            settings, pipeline = self.own_settings(), self.own_pipeline()
            held = _result_of_stream(self.result, settings)
            # An override has a reason and is recorded: marking a task as a success is none.
            if held.error is not None and held.error.type == ChecksFailed.__name__:
                raise failure("Validation", held.error)
            if not _has_passed(held):
                now = datetime.now(UTC)
                gated = validate_held(pipeline, held, self.result, settings, now)
                _log_verdicts(self.log, gated.validation)
                held = gated.run
                if held.error is not None:
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


def _has_passed(held: RunResult) -> bool:
    """Has a validation let it through? A publish was not tried before one had."""
    return "validate" in held.seconds and (held.error is None or "publish" in held.seconds)
