"""The task that runs a pipeline once, with `--hold`, so that publish is a task of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from tidemark.airflow.job import JobOperator
from tidemark.airflow.outcome import log_lines, summary
from tidemark.checkpoint.new_input import new_input_bytes
from tidemark.errors import TidemarkError
from tidemark.pipeline.jvm import jvm_variables
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.settings import Settings
from tidemark.tables.results.result import RunResult


class StreamOperator(JobOperator):
    """Submits a pipeline's run, and decides from its result file."""

    job = "tidemark.streaming.stream.job"
    doing = "The run"
    result_type = RunResult

    def job_run_id(self, context: Context) -> str:
        return str(context["run_id"])

    def job_arguments(self, context: Context) -> list[str]:
        return ["--hold", *_schedule(context)]

    def job_variables(self, settings: Settings) -> dict[str, str]:
        """By how much there is to read, where this worker has set-up's flags for the JVM.

        What is wrong with a pipeline's file is for the job to say, in its result.
        """
        try:
            pipeline = load_pipeline(Path(self.pipeline_file))
        except TidemarkError:
            return {}
        new_bytes = new_input_bytes(pipeline, settings.root, settings.storage_options)
        return jvm_variables(os.environ, new_bytes)

    def log_lines(self, result: RunResult) -> list[str]:
        return log_lines(result)

    def summary(self, result: RunResult, uri: str) -> dict[str, Any]:
        return summary(result, uri)


def _schedule(context: Context) -> list[str]:
    """The time that the run stands for: the end of its data interval where it has one."""
    dag_run = context["dag_run"]
    stands_for = dag_run.data_interval_end or dag_run.run_after
    trigger = getattr(dag_run.run_type, "value", dag_run.run_type)
    return ["--scheduled-time", stands_for.isoformat(), "--trigger", str(trigger)]
