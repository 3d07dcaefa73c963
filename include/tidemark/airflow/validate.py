"""The task that holds what a run would publish to its pipeline's checks.

Few rows are judged in the task itself, without a JVM; expectations on many in a job by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseOperatorLink, Context

from tidemark.airflow.job import JobOperator
from tidemark.airflow.outcome import as_task_failure
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


class ValidateOperator(JobOperator):
    """Validates a held run, and fails for good where a check keeps it from being published.

    `held` is the place of the run's result file, usually from the stream task's XCom. How many
    checks ran, which gave a warning, and where the Data Docs begin go to XCom; each verdict to
    `ops/quality`.
    """

    job = "tidemark.streaming.jobs.validate"
    doing = "Validation"
    result_type = ValidationResult
    template_fields: Sequence[str] = (*JobOperator.template_fields, "held")
    operator_extra_links = (DataDocsLink(),)
    # Where the pages of the run begin, for a browser; None until they are known.
    data_docs: str | None = None

    def __init__(self, *, held: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.held = held

    def job_run_id(self, context: Context) -> str:
        """Never that of the run, whose result file would be overwritten."""
        return f"validate__{context['run_id']}"

    def job_arguments(self, context: Context) -> list[str]:
        return ["--held", self.held]

    def done_without_job(
        self, context: Context, settings: Settings, uri: str
    ) -> ValidationResult | None:
        # delta-rs, Arrow and DuckDB, which parsing a Dag must not load.
        from tidemark.quality.gate import validate_held
        from tidemark.quality.validate import ManyRows

        options = settings.storage_options
        with as_task_failure(self.doing):
            pipeline = self.own_pipeline()
            run = read_result(RunResult, self.held, options)
            gated = validate_held(pipeline, run, self.held, settings, datetime.now(UTC))
            if isinstance(gated, ManyRows):
                self.log.info("Spark is started: %s", gated)
                return None
            write_result(uri, gated.validation, options)
        return gated.validation

    def ended(self, context: Context, result: ValidationResult) -> None:
        # Also where the task fails then: a failed check is what people want to look at.
        if result.data_docs:
            self.data_docs = self.own_settings().docs_address(result.data_docs)

    def log_lines(self, result: ValidationResult) -> list[str]:
        docs = [f"Data Docs: {result.data_docs}"] if result.data_docs else []
        return [_line(verdict) for verdict in result.verdicts] + docs

    def summary(self, result: ValidationResult, uri: str) -> dict[str, Any]:
        return {
            "result": uri,
            "checks": len(result.verdicts),
            "warnings": [verdict_line(verdict) for verdict in warnings(result.verdicts)],
            "data_docs": result.data_docs,
        }


def _line(verdict: Any) -> str:
    failed = "failed" if verdict in failures([verdict]) else "warning"
    return f"{'kept' if verdict.passed else failed}: {verdict_line(verdict)}"
