"""The task that runs a pipeline once, held, so that publish is a task of its own.

Where there is nothing for Spark to do, the run is done in the task itself, and no JVM starts. Where
nothing is to be published either, the task does what is left, and the tasks after it are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from tidemark.airflow.job import JobOperator
from tidemark.airflow.metrics import gauge_run, gauge_source
from tidemark.airflow.outcome import as_task_failure, log_lines
from tidemark.airflow.pipeline_operator import started_by
from tidemark.errors import TidemarkError
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.runs.requests import StreamRequest
from tidemark.runs.results.result import RunResult
from tidemark.sources.new_input import new_input_bytes

if TYPE_CHECKING:
    from tidemark.quality.validate import Validated
    from tidemark.runs.run import Run

# Of a Dag that runs it. An Airflow backfill would run the same checkpoint again, not reprocess
# history: the pipeline's backfill Dag does that.
RUN_TYPES = ("scheduled", "manual", "operator_triggered", "asset_triggered")
_PUBLISHING = ("validate", "publish")
OVER = ("skipped", "success")


class StreamOperator(JobOperator):
    """Submits a pipeline's run where Spark is needed, and decides from its result file.

    `followers` are the ids of the tasks after it that have nothing to do where a run has changed
    nothing, and the run before it succeeded: Airflow skips them then, without a process. Where that
    one failed they run, and so they do behind a later try, so that what is wrong is not taken for
    mended.
    """

    followers: Sequence[str] = ()
    # Is publishing left to a task of its own?
    hold: ClassVar[bool] = True
    _is_idle = False
    request_type = StreamRequest
    doing = "The run"
    result_type = RunResult
    log_lines = staticmethod(log_lines)

    def job_run_id(self, context: Context) -> str:
        return self.own_run_id(context)

    def asked(self, context: Context) -> dict[str, Any]:
        stands_for, trigger = schedule_of(context)
        return {"hold": self.hold, "scheduled_time": stands_for, "trigger": trigger}

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # as its base
        """Run the job to its end; the summary goes to XCom."""
        summary = super().execute(context)
        if not self._is_idle:
            return summary
        # Airflow pushes what is returned alone.
        for key, value in summary.items():
            context["ti"].xcom_push(key, value)
        raise DownstreamTasksSkipped(tasks=list(self.followers))  # type: ignore[no-untyped-call]

    def done_without_job(self, context: Context, settings: Settings, uri: str) -> RunResult | None:
        from tidemark.quality.gate import at_once
        from tidemark.runs.preflight import SparkNeeded
        from tidemark.runs.without_spark import run_without_spark

        try:
            pipeline = self.own_pipeline()
        except TidemarkError:
            return None  # The job says what is wrong with it, in its result.
        run = run_of(pipeline, settings, context, self.job_run_id(context))
        then = None if self.hold else at_once(self.tell_verdicts)
        with as_task_failure(self.doing):
            done = run_without_spark(run, datetime.now(UTC), uri, then)
        if isinstance(done, SparkNeeded):
            self.log.info("Spark is started: %s", done.because)
            return None
        # Of a later try one of them may have failed before.
        if done.error is not None or not self.followers or context["ti"].try_number > 1:
            return done
        with as_task_failure(self.doing):
            if not _succeeded_before(context, pipeline, settings):
                return done
            published = _published_idle(pipeline, done, uri, settings)
        self._is_idle = published is not None
        return published or done

    def ended(self, context: Context, result: RunResult) -> None:
        """Raise where the run is held, and what would publish it is over: skipped by a try before,
        or not cleared with this task."""
        if context["ti"].try_number == 1 or result.error is not None or not result.held:
            return
        if over := _publishing_over(context, self.task_id.removesuffix("stream")):
            raise AirflowFailException(
                f"The run is held, and nothing of this Dag run would publish it: {over} before "
                "this try. What it committed stays, and gold is as it was. Clear this task "
                "together with those after it, or wait: the next run publishes what this one left."
            )

    def tell_verdicts(self, found: Validated) -> None:
        """Log what the checks of a run said that publishes here."""
        for verdict in found.verdicts:
            self.log.info(verdict_line(verdict))

    def new_bytes(self, settings: Settings) -> int:
        """What is wrong with a pipeline's file is for the job to say, in its result."""
        try:
            return new_input_bytes(self.own_pipeline(), settings)
        except TidemarkError:
            return 0

    def summary(self, result: RunResult, uri: str) -> dict[str, Any]:
        """What goes to XCom: small, and without anything that a pipeline's rows hold."""
        gauge_run(result)
        try:
            told = gauge_source(self.own_pipeline(), self.own_settings())
        except TidemarkError as error:
            told = str(error)
        if told:
            self.log.info("The lag of the source is not known: %s", told)
        return {
            "result": uri,
            "rows": result.rows.model_dump(exclude_none=True),
            "took_over": result.took_over,
            "tables": {
                name: {
                    "windows_changed": table.windows_changed,
                    "late_rows": table.late.rows + table.late.partly,
                    "windows_corrected": table.corrected,
                    "watermark_ms": table.watermark_after_ms,
                }
                for name, table in result.tables.items()
            },
        }


def _succeeded_before(context: Context, pipeline: Pipeline, settings: Settings) -> bool:
    """Did all tasks of the run before succeed? Airflow tells the Dag run of the next earlier
    logical date, and passes over those without one, so by the pipeline's own record that has to be
    the run before."""
    before = context["ti"].get_previous_dagrun()
    if before is None or before.state != "success":
        return False
    return is_last_run(before.run_id, pipeline, settings, str(context["run_id"]))


def is_last_run(run_id: str, pipeline: Pipeline, settings: Settings, of: str) -> bool:
    """Is a run the one before the run `of` a pipeline, by its own record?"""
    from tidemark.runs.status.recent_runs import recent_runs
    from tidemark.storage.warehouse import Warehouse

    recorded = Warehouse.of(pipeline.name, settings).runs.open()
    runs = recent_runs(recorded, pipeline.name, 2, now=datetime.now(UTC))
    return [one.run for one in runs if one.run != of][:1] == [run_id]


def _publishing_over(context: Context, prefix: str) -> str:
    """Which of the tasks that publish this run have ended already, for people; empty: none.
    `prefix` is that of their ids, by the group that they are in."""
    task, run_id = context["ti"], str(context["run_id"])
    names = [f"{prefix}{name}" for name in _PUBLISHING]
    # Clearing a task takes its state away.
    found = task.get_task_states(dag_id=task.dag_id, task_ids=names, run_ids=[run_id])
    states = {name: str(state) for name, state in found.get(run_id, {}).items()}
    return ", ".join(f"{name}: {how}" for name, how in states.items() if how in OVER)


def _published_idle(
    pipeline: Pipeline, held: RunResult, uri: str, settings: Settings
) -> RunResult | None:
    """A run that publishes no row, published; None where the tasks for that have something to do or
    to tell: rows that an earlier run left, a check that fails or warns."""
    from tidemark.quality.gate import validate_held
    from tidemark.runs.publish_held import leaves_all_golds, publish_and_record

    if not leaves_all_golds(pipeline, held, settings):
        return None
    found = validate_held(pipeline, held, uri, settings, datetime.now(UTC))
    if found.run.error is not None or warnings(found.validation.verdicts):
        return None
    run = publish_and_record(pipeline, found.run, uri, settings)
    return None if run.error is not None else run


def run_of(pipeline: Pipeline, settings: Settings, context: Context, run_id: str) -> Run:
    """The run of a pipeline that a task's Dag run asks for, by the id that is given."""
    from tidemark.runs.run import Run

    (stands_for, trigger), started = schedule_of(context), started_by(context)
    by, dag = started["by"], started["dag"]
    return Run(pipeline, settings, run_id, epoch_ms(stands_for), trigger, by=by, dag=dag)


def schedule_of(context: Context) -> tuple[datetime, str]:
    """The time that the run stands for, the end of its data interval where it has one, and what
    started it."""
    dag_run = context["dag_run"]
    stands_for = dag_run.data_interval_end or dag_run.run_after
    return stands_for, str(getattr(dag_run.run_type, "value", dag_run.run_type))
