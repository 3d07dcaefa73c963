"""The Dags that compute tables again from bronze, and their tasks: a backfill, a migration, a
rewind and a retraction. Started by hand, with parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, Context, Param

from tidemark.airflow.assets import asset_of, tell_changed
from tidemark.airflow.job import JobOperator
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import BACKFILL_SUFFIX, MIGRATE_SUFFIX, RETRACT_SUFFIX, REWIND_SUFFIX
from tidemark.pipeline.places import Places
from tidemark.recompute.backfill_result import BackfillResult, backfill_lines
from tidemark.recompute.migration_result import MigrationResult, migration_lines
from tidemark.recompute.retract.result import RetractResult, retract_lines
from tidemark.recompute.rewind.result import RewindResult, rewind_lines
from tidemark.runs.requests import (
    BackfillRequest,
    MigrationRequest,
    PipelineRequest,
    RecomputeRequest,
    RetractRequest,
    RewindRequest,
    RunRequest,
)

# Started by a person, or by another Dag; an Airflow backfill of it would repeat one range.
RUN_TYPES = ("manual", "operator_triggered")
# Of a request, what a parameter does not ask: who accepts is who started the Dag run. Of those that
# publish one table, `accept` is asked as its reason.
_NOT_ASKED = (*RunRequest.model_fields,)


class _RecomputeOperator(JobOperator):
    """Of those that publish one table by themselves."""

    def asked(self, context: Context) -> dict[str, Any]:
        """Where the parameter `accept` is given, it is the reason to publish in spite of checks."""
        asked = super().asked(context)
        accepted = (asked.pop("accept", None) or "").strip()
        if not accepted:
            return asked
        reason = "; ".join(one for one in (asked.get("reason"), accepted) if one)
        return {**asked, "accept": True, "reason": reason}

    def ended(self, context: Context, result: BackfillResult | MigrationResult) -> None:
        tell_changed(self, context, result.run_id, {result.table: result.published})


class BackfillOperator(_RecomputeOperator):
    """Submits a backfill with the parameters `table`, `from`, `to`, `reason`, `dry_run` and
    `accept`.

    It publishes by itself, in one commit, unless a check keeps it back. Of its outlets, gold
    tables, the one gets an event that it changed. Counts and gold's version go to XCom; what
    changes, before → after, stands in the task's log and in the result file.
    """

    request_type = BackfillRequest
    doing = "The backfill"
    result_type = BackfillResult
    log_lines = staticmethod(backfill_lines)
    begins_with_lease = True

    def summary(self, result: BackfillResult, uri: str) -> dict[str, Any]:
        return {
            "result": uri,
            "table": result.table,
            "dry_run": result.dry_run,
            "windows_differing": result.found.windows,
            "windows_published": result.published_windows,
            "gold": result.gold,
            "data_docs": result.data_docs,
        }


class MigrateOperator(_RecomputeOperator):
    """Submits a migration with the parameters `table`, `rebuild`, `reason`, `dry_run` and
    `accept`.

    Gold changes in one commit, unless a check keeps it back. Of its outlets, gold tables, the one
    gets an event that it changed. Numbers and gold's version go to XCom.
    """

    request_type = MigrationRequest
    doing = "The migration"
    result_type = MigrationResult
    log_lines = staticmethod(migration_lines)

    def summary(self, result: MigrationResult, uri: str) -> dict[str, Any]:
        return {
            "result": uri,
            "table": result.table,
            "dry_run": result.dry_run,
            "generation": result.generation,
            "gold": result.gold,
            "data_docs": result.data_docs,
        }


class RewindOperator(JobOperator):
    """Submits a rewind with the parameters `to_run`, `to_offsets`, `undo`, `without`, `reason` and
    `dry_run`.

    Of its outlets, gold tables, those get an event whose rows went back. The plan, or what was
    done, stands in the task's log; its backup and the runs that are undone go to XCom.
    """

    request_type = RewindRequest
    doing = "The rewind"
    result_type = RewindResult
    log_lines = staticmethod(rewind_lines)
    begins_with_lease = True

    def ended(self, context: Context, result: RewindResult) -> None:
        tell_changed(self, context, result.run_id, result.changed)

    def summary(self, result: RewindResult, uri: str) -> dict[str, Any]:
        change = result.change
        return {
            "result": uri,
            "dry_run": result.dry_run,
            "rewind": None if change is None else change.id,
            "undone": [] if change is None else list(change.undone),
            "backup": result.backup,
        }


class RetractOperator(JobOperator):
    """Submits a retraction with the parameters `where`, `file`, `run`, `undo`, `reason`, `accept`
    and `dry_run`.

    Of its outlets, gold tables, those get an event whose rows changed. The plan, or what was done,
    stands in the task's log; the act's id and how many rows moved go to XCom.
    """

    request_type = RetractRequest
    doing = "The retraction"
    result_type = RetractResult
    log_lines = staticmethod(retract_lines)
    begins_with_lease = True

    def ended(self, context: Context, result: RetractResult) -> None:
        tell_changed(self, context, result.run_id, result.published)

    def summary(self, result: RetractResult, uri: str) -> dict[str, Any]:
        change = result.change
        return {
            "result": uri,
            "dry_run": result.dry_run,
            "retraction": None if change is None else change.id,
            "rows": None if change is None else change.rows,
            "data_docs": result.data_docs,
        }


def recompute_dags(
    pipeline: Pipeline, places: Places, dag_arguments: dict[str, Any], task: dict[str, Any]
) -> Iterator[DAG]:
    """The four Dags. `dag_arguments` are those of the stream's Dag too, `task` those of its
    tasks."""
    for operator, suffix, task_id in (
        (BackfillOperator, BACKFILL_SUFFIX, "backfill"),
        (MigrateOperator, MIGRATE_SUFFIX, "migrate"),
        (RewindOperator, REWIND_SUFFIX, "rewind"),
        (RetractOperator, RETRACT_SUFFIX, "retract"),
    ):
        with DAG(
            dag_id=f"{pipeline.name}{suffix}",
            description=_DESCRIPTIONS[task_id].format(pipeline=pipeline.name),
            doc_md=_DOCUMENTATION[task_id].format(pipeline=pipeline.name),
            schedule=None,
            allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
            params=_params(operator.request_type, pipeline),
            **dag_arguments,
        ) as dag:
            operator(
                task_id=task_id,
                outlets=[asset_of(table, places) for table in pipeline.tables],
                doc_md=TASK_DOCS[task_id],
                **task,
            )
        yield dag


def _params(request: type[PipelineRequest], pipeline: Pipeline) -> dict[str, Param]:
    """A parameter for each thing that is asked. Nothing is written unless somebody says so."""
    params, by_reason = {}, issubclass(request, RecomputeRequest)
    for name, schema in request.model_json_schema()["properties"].items():
        if name in _NOT_ASKED or (by_reason and name == "accept"):
            continue
        one = {key: of for key, of in schema.items() if key not in ("title", "anyOf", "default")}
        if name == "table":
            tables = list(pipeline.tables)
            params[name] = Param(tables[0], enum=tables, **one)
        elif "default" not in schema:
            params[name] = Param(**one)
        elif name == "dry_run":
            params[name] = Param(True, **one)
        elif "anyOf" in schema:
            # The form shows a choice of types as a field only in this way.
            params[name] = Param(None, type=["null", "string"], **one)
        else:
            params[name] = Param(schema["default"], **one)
    if by_reason:
        params["accept"] = Param(
            None,
            type=["null", "string"],
            description="Publish even where checks fail: the reason, which is recorded",
        )
    return params


_DESCRIPTIONS = {
    "backfill": "Closed windows of {pipeline}, computed again from accepted rows",
    "migrate": "The next generation of a table of {pipeline}, computed from bronze",
    "rewind": "Takes {pipeline} back to the end of a former run",
    "retract": "Takes rows of {pipeline} out of bronze that were a mistake",
}
_DOCUMENTATION = {
    "backfill": """\
Computes closed windows of a table of `{pipeline}` again from its accepted rows (`bronze`), and
publishes those that differ, in one commit: their `status` becomes `corrected`, their `revision`
counts up; windows that were missing come as `final`, and windows without any row go.

- **When**: rows of `bronze` were corrected, deleted or ingested again for days gone by, or an audit
  found differences.
- **`dry_run`** is on unless you switch it off: the task's log shows how many windows would change,
  with examples, before → after. Nothing is written.
- **Checks** of the table hold here too, for what would be published: where one with `fail` does not
  pass, nothing is written. `accept` overrides that, with a reason that is recorded.
- **`reason`** says why it is done, and is recorded with the name of who started the Dag run.
- **Refused**: ranges with windows that are still open (the message names the largest range), and,
  with `keep`, frozen ones; and while windows of a run wait for their publish (the task is tried
  again).
- **The stream** goes on undisturbed: its checkpoint, watermark and close frontier stay as they are.
  A backfill and a run never work at once; the later one is told who works, and tries again.
""",
    "migrate": """\
Begins the next generation of a table of `{pipeline}`: all its windows are computed from
accepted rows (`bronze`) by the pipeline's file as it is now, and take the place of gold's in one
commit, with their columns. Runs go on from there.

- **When**: a run of the stream ended with `PipelineChanged`, *needs a new generation*; or, with
  `rebuild`, the table's history or checkpoint was lost.
- **`dry_run`** is on unless you switch it off: the task's log shows what changes, and how many
  windows stay as they are, are corrected, or are new. Nothing is written.
- **Checks** of the table hold here too. `accept` overrides them, with a reason that is recorded.
- **`reason`** says why it is done, and is recorded with the name of who started the Dag run.
- **Runs** of the pipeline go on while windows are computed, and wait for what comes after that.
  Killed before its commit, gold is as it was: start it again.
- **The way back** is a command: `tidemark migrate {pipeline} --rollback TABLE`.
""",
    "rewind": """\
Takes `{pipeline}` back to the end of a former run: `bronze`, `rejects`, the ingest's
checkpoint and gold are as they were then, each table begins a new generation, and what came since
is read again by the next run of the stream. Tables of other pipelines that join with it begin anew
too.

- **When**: rows came in that should not have (a wrong file, a wrong topic, a wrong derived column),
  and the source has them right by now.
- **`dry_run`** is on unless you switch it off: the task's log shows what goes back, which runs are
  undone, and why it may not.
- **`to_run`** is a run's id as `ops/runs` has it; `tidemark rewind {pipeline}` lists those
  that one can go back to. With neither that nor `undo`, a rewind that was killed is finished.
- **`without`** names files that are not read again, because they are gone or were a mistake; with a
  **`reason`**, which is recorded.
- **Pause the stream's Dag** before, and unpause it when the source is as it should be.
- **The way back**: `undo`, with the id that the task's log tells.
""",
    "retract": """\
Takes rows of `{pipeline}` out of `bronze` that were a mistake. They go to the table `retracted`,
and gold is as if they had never come: each table begins a new generation. A bronze that tables of
other pipelines join with is refused.

- **When**: rows were accepted that should never have come, and the source will not send them again.
- **`where`**, Spark SQL on bronze's columns, **`file`**, **`run`** or **`undo`**: one of them names
  the rows. With none of them, and `dry_run` off, a retraction that was killed is finished.
- **`dry_run`** is on unless you switch it off: the task's log shows how many rows there are, and
  which rows of gold change, before → after. Nothing is written.
- **`reason`** is needed to do it. Where a check of a table keeps it back, `accept` overrides that.
- **The way back**: `undo`, with the id that the task's log tells.
""",
}
