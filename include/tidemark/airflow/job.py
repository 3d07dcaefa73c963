"""A task that runs a job of a pipeline by spark-submit, and decides from its result file.

Its life:
1. refuse what cannot work before a JVM starts (a cluster cannot write to a local root);
2. end here where the subclass can do the run without the job;
3. submit the job as the provider does;
4. read the result file that the job wrote, whatever spark-submit's exit status was;
5. fail the task as the result says, or push a summary of it to XCom.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psutil
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemark.airflow.outcome import as_task_failure, failure, without_result
from tidemark.errors import ResultUnreadable
from tidemark.pipeline.masters import check_master
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings import Settings, load_settings
from tidemark.tables.results.result_file import Facts, read_result


class JobOperator(SparkSubmitOperator):
    """Submits a job of a pipeline; the subclasses say which, and what its result means.

    The settings are loaded when the task runs, from `settings_file` or where `load_settings`
    finds them; the job inherits the worker's environment, so no secret is on a command line.
    Raises AirflowFailException when a retry cannot help, AirflowException when it can.
    Further arguments are the provider's (`conf`, `driver_memory`, `spark_binary` …).
    """

    # The job's module, what a failure calls it, and the result that it writes.
    job: ClassVar[str]
    doing: ClassVar[str]
    result_type: ClassVar[type[Facts]]

    def __init__(
        self, *, pipeline_file: str, settings_file: str | None = None, **kwargs: Any
    ) -> None:
        # A result belongs to one try, so a retry never attaches to the job of an earlier one.
        super().__init__(
            durable=False,
            multiple_outputs=True,
            name=f"tidemark {Path(pipeline_file).stem}",
            **kwargs,
        )
        self.pipeline_file = pipeline_file
        self.settings_file = settings_file

    @abstractmethod
    def job_run_id(self, context: Context) -> str:
        """The run id that the job works under."""

    @abstractmethod
    def job_arguments(self, context: Context) -> list[str]:
        """What the job is told besides pipeline, settings, run id and result."""

    @abstractmethod
    def log_lines(self, result: Any) -> list[str]:
        """The result for people."""

    @abstractmethod
    def summary(self, result: Any, uri: str) -> dict[str, Any]:
        """What of a result goes to XCom."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # None there
        """Run the job to its end; the summary goes to XCom."""
        with as_task_failure(self.doing):
            settings = load_settings(Path(self.settings_file) if self.settings_file else None)
            check_master(settings, *self._master())
        pipeline, run_id = Path(self.pipeline_file).stem, self.job_run_id(context)
        uri = Places(settings.root, pipeline).result(run_id, context["ti"].try_number)
        if (done := self.done_without_job(context, settings, uri)) is not None:
            return self._decide(done, uri, None)
        self.application = job_file(self.job)
        self.application_args = [*self._arguments(run_id, uri), *self.job_arguments(context)]
        self.env_vars = {**(self.env_vars or {}), **self.job_variables(settings)}
        before = self._earlier_result(uri, settings)
        submit_error = self._submit(context)
        result = self._written_result(uri, settings, submit_error)
        # A Dag run that was deleted and made again has the same id, tries and result file.
        if result == before:
            raise without_result(
                self._exit_status, f"{uri} is of an earlier run with this id."
            ) from submit_error
        return self._decide(result, uri, submit_error)

    def done_without_job(self, context: Context, settings: Settings, uri: str) -> Any:
        """The result, as it was written to `uri`, where no job is needed; None where one is."""
        return None

    def job_variables(self, settings: Settings) -> dict[str, str]:
        """Environment variables for spark-submit, besides the worker's own."""
        return {}

    def on_kill(self) -> None:
        """End all of the job: the provider kills the JVM only, and leaves Python's driver."""
        started = self._job_processes()
        if self._hook is not None:
            super().on_kill()
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _master(self) -> tuple[str, str]:
        """Spark's master, and where it was named."""
        master = str(self._get_hook()._connection["master"])
        # The provider takes yarn, with no more than a line in the log.
        unknown = f", or there is no connection {self._conn_id}" if master == "yarn" else ""
        return master, f"of the connection {self._conn_id}{unknown}"

    def _arguments(self, run_id: str, result: str) -> list[str]:
        settings = ["--settings", self.settings_file] if self.settings_file else []
        pipeline = ["--pipeline", self.pipeline_file]
        return [*pipeline, *settings, "--run-id", run_id, "--result", result]

    def _submit(self, context: Context) -> AirflowException | None:
        """Run spark-submit; its failure is returned, because the result file says more."""
        try:
            super().execute(context)
        except AirflowException as error:
            return error
        return None

    def _earlier_result(self, uri: str, settings: Settings) -> Any:
        with as_task_failure("Reading the result"), suppress(ResultUnreadable):
            return read_result(self.result_type, uri, settings.storage_options)
        return None

    def _written_result(
        self, uri: str, settings: Settings, submit_error: AirflowException | None
    ) -> Any:
        with as_task_failure("Reading the result"):
            try:
                return read_result(self.result_type, uri, settings.storage_options)
            except ResultUnreadable as error:
                raise without_result(self._exit_status, str(error)) from submit_error

    def _decide(
        self, result: Any, uri: str, submit_error: AirflowException | None
    ) -> dict[str, Any]:
        for line in self.log_lines(result):
            self.log.info(line)
        if result.error is not None:
            raise failure(self.doing, result.error) from submit_error
        if submit_error is not None:
            self.log.warning("It succeeded, yet spark-submit then failed: %s", submit_error)
        return self.summary(result, uri)

    @property
    def _exit_status(self) -> int | None:
        process = self._hook._submit_sp if self._hook else None
        return process.returncode if process else None

    def _job_processes(self) -> list[psutil.Process]:
        process = self._hook._submit_sp if self._hook else None
        with suppress(psutil.NoSuchProcess):
            if process is not None:
                return psutil.Process(process.pid).children(recursive=True)
        return []


def job_file(module: str) -> str:
    """A job's file, found without importing it: Airflow's process never loads pyspark."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise AirflowFailException(
            f"{module} is not installed beside tidemark.airflow, so there is no job to submit. "
            "Install the wheel `tidemark[spark]` on the worker."
        )
    return spec.origin
