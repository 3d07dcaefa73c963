"""One Dag for all pipelines of a schedule, whose runs share a start of Spark.

Its task `stream` runs them; the group of each pipeline has its result as a task, with its Assets
and its upkeep, as its own Dag has them. What the shared run could not do for a pipeline, the
pipeline's own task does alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Context, TaskGroup, XComArg
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from tidemark.airflow.alerts import SHARED_STREAM, Alert, SharedAlert
from tidemark.airflow.assets import asset_of, tell_changed
from tidemark.airflow.job import SubmitOperator, job_file
from tidemark.airflow.metrics import gauge_run, gauge_source
from tidemark.airflow.outcome import as_task_failure, log_lines, without_result
from tidemark.airflow.pipeline_operator import started_by
from tidemark.airflow.stream import (
    OVER,
    RUN_TYPES,
    StreamOperator,
    is_last_run,
    run_of,
    schedule_of,
)
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.airflow.tasks import upkeep_tasks
from tidemark.airflow.watcher import SHARED_WATCHER, WatcherOperator
from tidemark.errors import ResultUnreadable, TidemarkError
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import SHARED_PREFIX
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.jvm import jvm_variables
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.verdicts import warnings
from tidemark.runs.requests import ManyRequest, check_may_ask
from tidemark.runs.results.newest_result import results_of_tries
from tidemark.runs.results.result import RunResult
from tidemark.runs.together import JobGroup, groups_of
from tidemark.storage.result_file import read_result
from tidemark.storage.root import check_root

if TYPE_CHECKING:
    from tidemark.quality.validate import Validated

RESULT = "result"
# As Airflow has it.
_LONGEST_ID = 250
# What a Dag's id may have stays; of the rest, what schedules have often has a sign of its own.
_SIGNS = {" ": "_", "*": "x", "/": ".", ",": "-and-", "@": ""}


@dataclass(frozen=True)
class SharedRun:
    """How the run of a pipeline ended in a try of the shared one: its result, where that lies, and
    whether a check warned."""

    result: RunResult
    place: str
    warned: bool = False

    @property
    def is_idle(self) -> bool:
        """Is there nothing that anybody could be told, or have to keep small?"""
        changed = any(table.published for table in self.result.tables.values())
        spared = self.result.without_spark is not None and self.result.error is None
        return spared and not changed and not self.warned


class SharedStreamOperator(SubmitOperator):
    """Runs several pipelines once, each as it runs alone, and publishes what they changed; those
    that need Spark share its start, as those of `tidemark run A B C`.

    Where the results lie goes to XCom, by pipeline. An error of one pipeline is its own result, for
    the tasks of its group; one without a result is run by those. The first try fails, so that
    another follows, where no pipeline has a result. `followers` are the ids of each group's tasks:
    they are skipped where its run was idle, and all of them went well in the run before.
    """

    followers: Mapping[str, Sequence[str]]

    def __init__(self, *, pipeline_files: Sequence[str], **kwargs: Any) -> None:
        super().__init__(name="tidemark, several pipelines", **kwargs)
        self.pipeline_files = list(pipeline_files)
        self.followers = {}

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # None there
        """Run them; a repeat finds done what is done."""
        with as_task_failure("The runs"):
            settings = self.own_settings()
            check_root(settings)
            check_master(settings, *self._master())
        needing: list[Pipeline] = []
        ended: dict[str, SharedRun] = {}
        looked = list(self._pipelines())
        for pipeline in looked:
            found = self._without_spark(pipeline, context, settings)
            if found is None:
                needing.append(pipeline)
            else:
                ended[pipeline.name] = found
                if found.result.error is None:
                    gauge_run(found.result)
                    gauge_source(pipeline, settings)
        for group in groups_of(needing, settings):
            ended |= self._run_together(group, context, settings)
        task = context["ti"]
        if looked and not ended and task.try_number == 1 <= task.max_tries:
            names = ", ".join(one.name for one in looked)
            raise without_result(self._exit_status, f"It was to run {names}.")
        self._check_not_told(looked, ended, context)
        results = {name: one.place for name, one in ended.items()}
        idle = [one for one in looked if one.name in ended and ended[one.name].is_idle]
        skipped = list(self._skipped(idle, context, settings))
        if not skipped:
            return {"results": results}
        # Airflow pushes what is returned alone.
        context["ti"].xcom_push("results", results)
        raise DownstreamTasksSkipped(tasks=skipped)  # type: ignore[no-untyped-call]

    def _check_not_told(
        self, looked: Iterable[Pipeline], ended: Mapping[str, SharedRun], context: Context
    ) -> None:
        """AirflowFailException where what a later try came to would be told by tasks that are over:
        skipped by a try before, or not cleared with this one."""
        task, of = context["ti"], str(context["run_id"])
        if task.try_number == 1:
            return
        states = task.get_task_states(dag_id=task.dag_id, run_ids=[of]).get(of, {})
        names = [one.name for one in looked if one.name not in ended or not ended[one.name].is_idle]
        over = [f"{name}.{RESULT}" for name in names if states.get(f"{name}.{RESULT}") in OVER]
        if over:
            raise AirflowFailException(
                f"{', '.join(over)} ended before this try, and would tell how these runs ended. "
                "What they committed and published stays. Clear this task together with those "
                "after it, so that errors are told, and Assets get their events."
            )

    def _skipped(
        self, idle: Iterable[Pipeline], context: Context, settings: Settings
    ) -> Iterator[str]:
        """The tasks that have nothing to do, and had in the run before: of a later try one of them
        may have failed before."""
        task, of = context["ti"], str(context["run_id"])
        before = task.get_previous_dagrun() if task.try_number == 1 else None
        if before is None:
            return
        found = task.get_task_states(dag_id=task.dag_id, run_ids=[before.run_id])
        states = found.get(before.run_id, {})
        well = {name for name, state in states.items() if state in ("success", "skipped")}
        for pipeline in idle:
            tasks = self.followers.get(pipeline.name, ())
            if well.issuperset(tasks) and is_last_run(before.run_id, pipeline, settings, of):
                yield from tasks

    def _pipelines(self) -> Iterable[Pipeline]:
        for file in self.pipeline_files:
            try:
                yield load_pipeline(Path(file))
            except TidemarkError as error:
                self.log.error("%s is left to its own task: %s", Path(file).stem, error)

    def _without_spark(
        self, pipeline: Pipeline, context: Context, settings: Settings
    ) -> SharedRun | None:
        from tidemark.quality.gate import at_once
        from tidemark.runs.preflight import SparkNeeded
        from tidemark.runs.without_spark import run_without_spark

        warned = False

        def tell(found: Validated) -> None:
            nonlocal warned
            warned = bool(warnings(found.verdicts))

        run = run_of(pipeline, settings, context, str(context["run_id"]))
        uri = _place(pipeline.name, context, settings)
        try:
            done = run_without_spark(run, datetime.now(UTC), uri, at_once(tell))
        except TidemarkError as error:
            # What is in the way of this is in the way of the job too, which can say so.
            self.log.error("%s: %s", pipeline.name, error)
            return None
        if isinstance(done, SparkNeeded):
            self.log.info("%s: Spark is needed: %s", pipeline.name, done.because)
            return None
        for line in log_lines(done):
            self.log.info("%s: %s", pipeline.name, line)
        return SharedRun(done, uri, warned)

    def _run_together(
        self, group: JobGroup, context: Context, settings: Settings
    ) -> dict[str, SharedRun]:
        """What the pipelines of a group came to, by one job, of as many as it left a result."""
        (stands_for, trigger), started = schedule_of(context), started_by(context)
        names = [one.name for one in group.pipelines]
        files = {Path(file).stem: file for file in self.pipeline_files}
        request = ManyRequest(
            pipelines=tuple(files[name] for name in names),
            settings=Path(self.settings_file) if self.settings_file else None,
            root=self.root,
            run_id=str(context["run_id"]),
            try_number=context["ti"].try_number,
            scheduled_time=stands_for,
            trigger=trigger,
            by=started["by"],
            dag=started["dag"],
        )
        with as_task_failure("The runs"):
            check_may_ask(request, settings)
        given = self.env_vars
        self.application, self.application_args = job_file(request.job), request.arguments()
        self.env_vars = {**(given or {}), **jvm_variables(os.environ, group.input_bytes)}
        places = {name: _place(name, context, settings) for name in names}
        before = {name: _result_there(place, settings) for name, place in places.items()}
        try:
            self._submit(context)
        finally:
            self.env_vars = given
        there = {name: _result_there(place, settings) for name, place in places.items()}
        # A Dag run that was deleted and made again has the same id, tries and result files.
        ended = {
            name: SharedRun(result, places[name])
            for name, result in there.items()
            if result is not None and result != before[name]
        }
        if lacking := ", ".join(name for name in names if name not in ended):
            self.log.error("Left to their own tasks, for the job left no result: %s", lacking)
        return ended


class SharedResultOperator(StreamOperator):
    """Takes over how its pipeline's run ended in the shared one.

    `shared` has where the results lie, usually from the shared task's XCom. Where it has none, and
    in a further try of one that failed, it runs the pipeline alone, and publishes it. Of its
    outlets, gold tables, those get an event that the run changed.
    """

    template_fields = (*StreamOperator.template_fields, "shared")
    hold = False
    # What is taken over.
    _taken: RunResult | None = None

    def __init__(self, *, shared: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shared = shared

    def result_place(self, context: Context, settings: Settings) -> str:
        pipeline = Path(self.pipeline_file).stem
        place = str((self.shared or {}).get(pipeline, ""))
        found = _result_there(place, settings) if place else None
        if found and (found.error is None or context["ti"].try_number == 1):
            self._taken = found
            return place
        # Behind those of the shared run, so that it is the newest one.
        run_id = self.job_run_id(context)
        tries = results_of_tries(pipeline, settings, run_id)
        return Places(settings.root, pipeline).result(run_id, max(tries, default=0) + 1)

    def done_without_job(self, context: Context, settings: Settings, uri: str) -> RunResult | None:
        return self._taken or super().done_without_job(context, settings, uri)

    def ended(self, context: Context, result: RunResult) -> None:
        tables = result.tables.items()
        tell_changed(self, context, result.run_id, {name: t.published for name, t in tables})


def shared_dag_id(schedule: str, name: str = "") -> str:
    """The id of the Dag of a schedule's pipelines: `shared-hourly`, `shared-x.10_x_x_x_x`, with a
    name `shared-NAME-hourly`; a long one ends with a digest of the schedule."""
    schedule = " ".join(schedule.split())
    named = f"{name}-{schedule}" if name else schedule
    text = "".join(_SIGNS.get(sign, sign) for sign in named)
    dag_id = SHARED_PREFIX + re.sub(r"[^A-Za-z0-9_.-]", lambda sign: f"{ord(sign[0]):x}", text)
    if len(dag_id) <= _LONGEST_ID:
        return dag_id
    digest = hashlib.sha256(named.encode()).hexdigest()[:8]
    return f"{dag_id[: _LONGEST_ID - 9]}-{digest}"


def shared_dag(
    pipelines: Mapping[str, Pipeline],
    settings: Settings,
    task: dict[str, Any],
    alerts: tuple[Sequence[Alert], Sequence[Alert]],
    schedule: str,
    dag_arguments: dict[str, Any],
    name: str = "",
) -> DAG:
    """The Dag of pipelines of one schedule, given by their files. `task` names the connection and
    the files that tasks read; `alerts` are those of failures, and of recoveries. `name` goes into
    its id. ValueError where the Dag file has made one of that id already."""
    dag_id = shared_dag_id(schedule, name)
    _check_not_made(dag_id)
    failures, recoveries = alerts
    told = SharedAlert(tuple(failures), tuple(recoveries)) if failures or recoveries else None
    names = ", ".join(f"`{one.name}`" for one in pipelines.values())
    with DAG(
        dag_id=dag_id,
        schedule=schedule,
        description=f"{len(pipelines)} pipelines with one start of Spark",
        doc_md=f"Runs {names} with one start of Spark, each as it runs alone. A pipeline's own Dag "
        "runs it by hand.",
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        on_failure_callback=told.failed if told else None,
        on_success_callback=told.ended if told else None,
        **dag_arguments,
    ) as dag:
        stream = SharedStreamOperator(
            task_id=SHARED_STREAM,
            doc_md=TASK_DOCS["shared_stream"],
            pipeline_files=list(pipelines),
            **task,
        )
        shared, followers = XComArg(stream, key="results"), {}
        for file, pipeline in pipelines.items():
            tasks = _tasks_of(pipeline, file, shared, settings, task)
            followers[pipeline.name] = [one.task_id for one in tasks]
        stream.followers = followers
        list(dag.tasks) >> WatcherOperator(task_id=SHARED_WATCHER, doc_md=TASK_DOCS["watcher"])
    return dag


def _check_not_made(dag_id: str) -> None:
    """Airflow keeps one Dag of an id, and says nothing of another one in the same file."""
    # No module that Airflow promises to keep; where it is gone, nothing is told.
    with suppress(ImportError):
        from airflow.sdk.definitions._internal.contextmanager import DagContext

        if any(dag.dag_id == dag_id for dag, _ in DagContext.autoregistered_dags):
            raise ValueError(
                f"This Dag file has made the Dag {dag_id} already, by another call of "
                "pipeline_dags. Airflow would keep one of the two, and the pipelines of the other "
                "would have no schedule; no Dag of this file is made now. Give one of the calls a "
                "shared_name, which goes into the id."
            )


def _tasks_of(
    pipeline: Pipeline, file: str, shared: XComArg, settings: Settings, task: dict[str, Any]
) -> list[BaseOperator]:
    owner: dict[str, Any] = {"owner": pipeline.owner} if pipeline.owner else {}
    conn_id, files = task["conn_id"], {**task, "pipeline_file": file}
    del files["conn_id"]
    places = Places(settings.root, pipeline.name)
    with TaskGroup(
        group_id=pipeline.name,
        default_args=owner,  # type: ignore[arg-type]  # a converter of attrs hides its type
        tooltip=pipeline.description or "",
    ):
        result = SharedResultOperator(
            task_id=RESULT,
            doc_md=TASK_DOCS["shared_result"],
            shared=shared,
            conn_id=conn_id,
            outlets=[asset_of(table, places) for table in pipeline.tables],
            **files,
        )
        return upkeep_tasks([result], conn_id, files)


def _place(pipeline: str, context: Context, settings: Settings) -> str:
    places = Places(settings.root, pipeline)
    return places.result(str(context["run_id"]), context["ti"].try_number)


def _result_there(place: str, settings: Settings) -> RunResult | None:
    with as_task_failure("Reading a result"), suppress(ResultUnreadable):
        return read_result(RunResult, place, settings.storage_options)
    return None
