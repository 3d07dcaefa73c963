"""The Dag that backfills a pipeline's tables, and its task: started by hand, with parameters."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Context, Param
from airflow.sdk.exceptions import AirflowFailException

from tidemark.airflow.accepted import accept_arguments
from tidemark.airflow.assets import asset_of, tell_changed
from tidemark.airflow.job import JobOperator
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.pipeline.instants import utc_instant
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import BACKFILL_SUFFIX
from tidemark.pipeline.places import Places
from tidemark.runs.backfill.backfill_result import BackfillResult, backfill_lines

# Started by a person, or by another Dag; an Airflow backfill of it would repeat one range.
RUN_TYPES = ("manual", "operator_triggered")


class BackfillOperator(JobOperator):
    """Submits a backfill with the parameters `table`, `from`, `to`, `dry_run` and `accept`.

    It publishes by itself, in one commit, unless a check keeps it back. Of its outlets, gold
    tables, the one gets an event that it changed. Counts and gold's version go to XCom; what
    changes, before → after, stands in the task's log and in the result file.
    """

    job = "tidemark.streaming.jobs.backfill"
    doing = "The backfill"
    result_type = BackfillResult
    lease_purpose = "backfill"

    def job_run_id(self, context: Context) -> str:
        """Never that of a run of the stream: the lease takes over from an earlier try by it."""
        return f"backfill__{context['run_id']}"

    def job_arguments(self, context: Context) -> list[str]:
        asked = context["params"]
        bounds = [f"--from={_instant(asked, 'from')}", f"--to={_instant(asked, 'to')}"]
        dry_run = ["--dry-run"] if asked["dry_run"] else []
        return ["--table", asked["table"], *bounds, *dry_run, *accept_arguments(context)]

    def log_lines(self, result: BackfillResult) -> list[str]:
        return [] if result.error else list(backfill_lines(result))

    def ended(self, context: Context, result: BackfillResult) -> None:
        tell_changed(self, context, result.run_id, {result.table: result.published})

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


def _instant(asked: Any, name: str) -> str:
    """A bound with its zone; without one it would be guessed."""
    try:
        return utc_instant(str(asked[name])).isoformat()
    except ValueError as error:
        raise AirflowFailException(
            f"The parameter `{name}` is no time that can be used: {error}. Nothing was started."
        ) from error


def backfill_dag(
    pipeline: Pipeline, places: Places, dag_arguments: dict[str, Any], task: dict[str, Any]
) -> DAG:
    """The Dag. `dag_arguments` are those of the stream's Dag too, `task` those of its tasks."""
    with DAG(
        dag_id=f"{pipeline.name}{BACKFILL_SUFFIX}",
        description=f"Closed windows of {pipeline.name}, computed again from accepted rows",
        doc_md=_documentation(pipeline),
        schedule=None,
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        params=_params(pipeline),
        **dag_arguments,
    ) as dag:
        BackfillOperator(
            task_id="backfill",
            outlets=[asset_of(table, places) for table in pipeline.tables],
            doc_md=TASK_DOCS["backfill"],
            **task,
        )
    return dag


def _params(pipeline: Pipeline) -> dict[str, Param]:
    tables = list(pipeline.tables)
    return {
        "table": Param(tables[0], type="string", enum=tables, description="The table to mend"),
        "from": Param(
            type="string",
            format="date-time",
            description="Windows that start here or later, with a zone: 2026-07-01T00:00:00Z",
        ),
        "to": Param(
            type="string", format="date-time", description="… and before this, with a zone"
        ),
        "dry_run": Param(
            True, type="boolean", description="Only show what would change; write nothing"
        ),
        "accept": Param(
            None,
            type=["null", "string"],
            description="Publish even where checks fail: the reason, which is recorded",
        ),
    }


def _documentation(pipeline: Pipeline) -> str:
    return f"""\
Computes closed windows of a table of `{pipeline.name}` again from its accepted rows (`bronze`), and
publishes those that differ, in one commit: their `status` becomes `corrected`, their `revision`
counts up; windows that were missing come as `final`, and windows without any row go.

- **When**: rows of `bronze` were corrected, deleted or ingested again for days gone by, or an audit
  found differences.
- **`dry_run`** is on unless you switch it off: the task's log shows how many windows would change,
  with examples, before → after. Nothing is written.
- **Checks** of the table hold here too, for what would be published: where one with `fail` does not
  pass, nothing is written. `accept` overrides that, with a reason that is recorded.
- **Refused**: ranges with windows that are still open (the message names the largest range), and,
  with `keep`, frozen ones; and while windows of a run wait for their publish (the task is tried
  again).
- **The stream** goes on undisturbed: its checkpoint, watermark and close frontier stay as they are.
  A backfill and a run never work at once; the later one is told who works, and tries again.
"""
