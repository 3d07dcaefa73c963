"""A task that runs a job of a pipeline by spark-submit, and decides from its result file.

Its life:
1. refuse what cannot work before a JVM starts (a root that is not mounted, a cluster that cannot
   write to a local one);
2. end here where the subclass can do the run without the job;
3. submit the job as the provider does, in a session of its own: whatever ends the try (a kill,
   its timeout, Ctrl-C, Airflow's end) ends all processes of that session;
4. read the result file that the job wrote, whatever spark-submit's exit status was;
5. fail the task as the result says, or push a summary of it to XCom.
"""

from __future__ import annotations

import importlib.util
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from pydantic import ValidationError

from tidemark.airflow.outcome import RETRY, as_task_failure, failure, without_result
from tidemark.airflow.pipeline_operator import PipelineOperator, SettingsOperator, started_by
from tidemark.errors import ResultUnreadable
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.jvm import jvm_variables
from tidemark.pipeline.settings.masters import check_master, without_loopback
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import PipelineRequest, RunRequest, check_may_ask, fault_of
from tidemark.storage.processes import end_processes, mark_of, session_members
from tidemark.storage.result_file import Facts, read_result
from tidemark.storage.root import check_root

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

_NOT_INSTALLED = object()
# Between SIGTERM and SIGKILL. Airflow kills a task's process 5 seconds after it asked it to end;
# whatever of the job is left then, nobody ends before the next try.
GRACE = 3.0


class SubmitOperator(SettingsOperator, SparkSubmitOperator):
    """Runs spark-submit in a session of its own, which ends with the try, whatever ends that.

    The job inherits the worker's environment, so no secret is on a command line. Further arguments
    are the provider's (`conf`, `driver_memory`, `spark_binary` …).
    """

    # A first run over much history may take long.
    timeout = timedelta(hours=6)

    def __init__(self, **kwargs: Any) -> None:
        # A result belongs to one try, so a retry never attaches to the job of an earlier one.
        super().__init__(durable=False, multiple_outputs=True, **kwargs)
        self._was_killed = False

    def on_kill(self) -> None:
        """End the whole job: the provider kills the JVM only, and leaves Python's driver.

        What the job committed stays; the next try goes on from there. A driver that runs on a
        cluster is ended by the provider, which needs spark-submit alive for that.
        """
        self._was_killed = True
        if self._hook is None:
            return
        acts = [self._end_job, super().on_kill]
        on_cluster = self._hook._connection["deploy_mode"] == "cluster"
        for act in reversed(acts) if on_cluster else acts:
            act()

    def _master(self) -> tuple[str, str]:
        """Spark's master, and where it was named."""
        master = str(self._get_hook()._connection["master"])
        # The provider takes yarn, with no more than a line in the log.
        unknown = f", or there is no connection {self._conn_id}" if master == "yarn" else ""
        return master, f"of the connection {self._conn_id}{unknown}"

    def _submit(self, context: Context) -> AirflowException | None:
        """Run spark-submit; its failure is returned, because the result file says more."""
        if self._was_killed:
            raise AirflowException(f"The task was ended before the job was started.\n{RETRY}")
        # The provider would submit what it was asked before once more.
        self._hook = None
        # The provider gives the job this process's own environment, which ends with the task.
        environment = without_loopback(os.environ, self._master()[0])
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        try:
            super().execute(context)
        except AirflowException as error:
            return error
        except BaseException:
            # Nobody else reaches a session of its own: not the terminal, not Airflow's signals.
            self.on_kill()
            raise
        return None

    def _get_hook(self) -> SparkSubmitHook:
        # Where a master is on Kubernetes the hook asks for Airflow's provider of that, by which it
        # ends the pod of a driver. In client mode there is none: the driver is a process of ours.
        provider = vars(spark_submit).setdefault("kube_client", _NOT_INSTALLED)
        hook = super()._get_hook()
        if hook._is_kubernetes and hook._connection["deploy_mode"] != "cluster":
            # It gives these to a driver's pod alone, and takes the exit status from what that says.
            hook._env, hook._spark_exit_code = self.env_vars, 0
        elif hook._is_kubernetes and provider is _NOT_INSTALLED:
            raise AirflowFailException(
                f"The connection {self._conn_id} asks for a driver in a pod of its own. That takes "
                "apache-airflow-providers-cncf-kubernetes on the worker. Nothing was started. "
                "Install it, or leave deploy-mode out of the connection."
            )
        # Its further arguments are Popen's.
        hook.submit = partial(hook.submit, start_new_session=True)  # type: ignore[method-assign]
        return hook

    def _end_job(self) -> None:
        process = self._hook._submit_sp if self._hook else None
        if process is None or (process.poll() is not None and mark_of(process.pid)):
            return  # After its end the pid may be another's.
        if left := end_processes(session_members(process.pid), GRACE):
            pids = ", ".join(str(mark.pid) for mark in left)
            self.log.error("These processes of the job could not be ended: %s", pids)

    @property
    def _exit_status(self) -> int | None:
        process = self._hook._submit_sp if self._hook else None
        return process.returncode if process else None


class JobOperator(PipelineOperator, SubmitOperator):
    """Submits a job of a pipeline; the subclasses say which, and what its result means.

    Raises AirflowFailException when a retry cannot help, AirflowException when it can.
    """

    # What the job is asked, what a failure calls it, its result, and the result for people.
    request_type: ClassVar[type[PipelineRequest]]
    doing: ClassVar[str]
    result_type: ClassVar[type[Facts]]
    log_lines: Callable[[Any], Iterable[str]]
    # Does it begin by taking the lease? Where it cannot be had, none is started.
    begins_with_lease: ClassVar[bool] = False

    def __init__(self, *, pipeline_file: str, **kwargs: Any) -> None:
        name = f"tidemark {Path(pipeline_file).stem}"
        super().__init__(pipeline_file=pipeline_file, name=name, **kwargs)

    def job_run_id(self, context: Context) -> str:
        """The run id that the job works under; never that of a run of the stream, as the lease
        takes over from an earlier try by it."""
        return f"{self.request_type.kind}__{self.own_run_id(context)}"

    def result_place(self, context: Context, settings: Settings) -> str:
        """Where the result of this try goes."""
        places = Places(settings.root, Path(self.pipeline_file).stem)
        return places.result(self.job_run_id(context), context["ti"].try_number)

    def asked(self, context: Context) -> dict[str, Any]:
        """What the job is asked besides pipeline, settings, run id and result: by the Dag's
        parameters, without those that say nothing."""
        return {name: of for name, of in context["params"].items() if of not in (None, "", [])}

    @abstractmethod
    def summary(self, result: Any, uri: str) -> dict[str, Any]:
        """The facts of a result that go to XCom."""

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # None there
        """Run the job to its end; the summary goes to XCom."""
        with as_task_failure(self.doing):
            settings = self.own_settings()
            check_root(settings)
            check_master(settings, *self._master())
        run_id, uri = self.job_run_id(context), self.result_place(context, settings)
        if (done := self.done_without_job(context, settings, uri)) is not None:
            return self._decide(context, done, uri, None)
        request = self._request(context, run_id, uri)
        with as_task_failure(self.doing):
            check_may_ask(request, settings)
        if self.begins_with_lease and not getattr(request, "dry_run", False):
            from tidemark.runs.pipeline_lease import check_lease

            with as_task_failure(self.doing):
                check_lease(self.own_pipeline(), settings, run_id, self.request_type.kind)
        self.application = job_file(self.request_type.job)
        self.application_args = request.arguments()
        variables = jvm_variables(os.environ, self.new_bytes(settings))
        self.env_vars = {**(self.env_vars or {}), **variables}
        before = None
        with as_task_failure("Reading the result"), suppress(ResultUnreadable):
            before = read_result(self.result_type, uri, settings.storage_options)
        submit_error = self._submit(context)
        result = self._written_result(uri, settings, submit_error)
        # A Dag run that was deleted and made again has the same id, tries and result file.
        if result == before:
            raise without_result(
                self._exit_status, f"{uri} is of an earlier run with this id."
            ) from submit_error
        return self._decide(context, result, uri, submit_error)

    def done_without_job(self, context: Context, settings: Settings, uri: str) -> Any:
        """The result, as it was written to `uri`, where no job is needed; None where one is."""
        return None

    def new_bytes(self, settings: Settings) -> int:
        """How much there is to read, of what makes another JVM worth its while."""
        return 0

    def ended(self, context: Context, result: Any) -> None:
        """What there is to do with a result, good or bad, before it decides on the task."""

    def _request(self, context: Context, run_id: str, result: str) -> PipelineRequest:
        own = {
            "pipeline": self.pipeline_file,
            "settings": self.settings_file,
            "root": self.root,
            "run_id": run_id,
            "result": result,
            **(started_by(context) if issubclass(self.request_type, RunRequest) else {}),
        }
        asked = self.asked(context)
        # Airflow makes a parameter of each name in a Dag run's conf, and whoever may trigger the
        # Dag of one pipeline would act on another by it, or under another's name.
        if taken := own.keys() & asked.keys():
            raise AirflowFailException(
                f"{self.doing} was not started: {', '.join(sorted(taken))} cannot be asked by a "
                "parameter, and nothing was changed. The task's Dag and who triggered it say that: "
                "leave it out of the Dag run's conf."
            )
        try:
            return self.request_type.model_validate(own | asked)
        except ValidationError as error:
            raise AirflowFailException(
                f"{self.doing} was not started: its parameters are none that can be used. "
                f"{fault_of(error).replace('argument --', 'The parameter ')}."
            ) from error

    def _written_result(
        self, uri: str, settings: Settings, submit_error: AirflowException | None
    ) -> Any:
        with as_task_failure("Reading the result"):
            try:
                return read_result(self.result_type, uri, settings.storage_options)
            except ResultUnreadable as error:
                raise without_result(self._exit_status, str(error)) from submit_error

    def _decide(
        self, context: Context, result: Any, uri: str, submit_error: AirflowException | None
    ) -> dict[str, Any]:
        for line in self.log_lines(result):
            self.log.info(line)
        self.ended(context, result)
        if result.error is not None:
            raise failure(self.doing, result.error) from submit_error
        if submit_error is not None:
            self.log.warning("It succeeded, yet spark-submit then failed: %s", submit_error)
        return self.summary(result, uri)


def job_file(module: str) -> str:
    """A job's file, found without importing it: Airflow's process never loads pyspark."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise AirflowFailException(
            f"{module} is not installed beside tidemark.airflow, so there is no job to submit. "
            "Install the wheel `tidemark-streaming[spark]` on the worker."
        )
    return spec.origin
