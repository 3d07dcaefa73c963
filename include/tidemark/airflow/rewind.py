"""The Dag that takes a pipeline back to the end of a run, and its task: started by hand."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Context, Param

from tidemark.airflow.assets import asset_of, tell_changed
from tidemark.airflow.backfill import RUN_TYPES
from tidemark.airflow.job import JobOperator
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import REWIND_SUFFIX
from tidemark.pipeline.places import Places
from tidemark.upkeep.pipeline_rewind.result import RewindResult, rewind_lines


class RewindOperator(JobOperator):
    """Submits a rewind with the parameters `to_run`, `to_offsets`, `undo` and `dry_run`.

    Of its outlets, gold tables, those get an event whose rows went back. The plan, or what was
    done, stands in the task's log; its backup and the runs that are undone go to XCom.
    """

    job = "tidemark.streaming.jobs.rewind"
    doing = "The rewind"
    result_type = RewindResult
    lease_purpose = "rewind"

    def job_run_id(self, context: Context) -> str:
        """Never that of a run of the stream: the lease takes over from an earlier try by it."""
        return f"rewind__{context['run_id']}"

    def job_arguments(self, context: Context) -> list[str]:
        asked = context["params"]
        arguments = ["--dry-run"] if asked["dry_run"] else []
        for one in asked["to_offsets"] or ():
            arguments += ["--to-offset", one]
        for name in ("to_run", "undo"):
            arguments += [f"--{name.replace('_', '-')}", asked[name]] if asked[name] else []
        return arguments

    def log_lines(self, result: RewindResult) -> list[str]:
        return list(rewind_lines(result))

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


def rewind_dag(
    pipeline: Pipeline, places: Places, dag_arguments: dict[str, Any], task: dict[str, Any]
) -> DAG:
    """The Dag. `dag_arguments` are those of the stream's Dag too, `task` those of its tasks."""
    params = {
        "to_run": Param(
            None,
            type=["null", "string"],
            description="The run to whose end it goes back, as in ops/runs",
        ),
        "to_offsets": Param(
            [],
            type="array",
            items={"type": "string"},
            description="Of Kafka: to the newest run that had not read these: "
            "TOPIC/PARTITION:OFFSET, one a line",
        ),
        "undo": Param(
            None, type=["null", "string"], description="Or: the rewind that is taken back, its id"
        ),
        "dry_run": Param(
            True, type="boolean", description="Only show what would be done; change nothing"
        ),
    }
    with DAG(
        dag_id=f"{pipeline.name}{REWIND_SUFFIX}",
        description=f"Takes {pipeline.name} back to the end of a former run",
        doc_md=_documentation(pipeline),
        schedule=None,
        allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]  # converted to its enumeration
        params=params,
        **dag_arguments,
    ) as dag:
        RewindOperator(
            task_id="rewind",
            outlets=[asset_of(table, places) for table in pipeline.tables],
            doc_md=TASK_DOCS["rewind"],
            **task,
        )
    return dag


def _documentation(pipeline: Pipeline) -> str:
    return f"""\
Takes `{pipeline.name}` back to the end of a former run: `bronze`, `rejects`, the ingest's
checkpoint and gold are as they were then, each table begins a new generation, and what came since
is read again by the next run of the stream. Tables of other pipelines that join with it begin anew
too.

- **When**: rows came in that should not have (a wrong file, a wrong topic, a wrong derived column),
  and the source has them right by now.
- **`dry_run`** is on unless you switch it off: the task's log shows what goes back, which runs are
  undone, and why it may not.
- **`to_run`** is a run's id as `ops/runs` has it; `tidemark rewind {pipeline.name}` lists those
  that one can go back to. With neither that nor `undo`, a rewind that was killed is finished.
- **Pause the stream's Dag** before, and unpause it when the source is as it should be.
- **The way back**: `undo`, with the id that the task's log tells.
"""
