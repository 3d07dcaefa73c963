"""The tasks of a pipeline, one after the other: in a Dag of its own, or in a group of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, XComArg, chain

from tidemark.airflow.assets import asset_of
from tidemark.airflow.stream import StreamOperator
from tidemark.airflow.task_docs import TASK_DOCS
from tidemark.airflow.upkeep import (
    CheckpointHousekeepingOperator,
    CompactStateOperator,
    StateCheckOperator,
)
from tidemark.airflow.validate import PublishOperator, ValidateOperator
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import Settings


def task_defaults(settings: Settings) -> dict[str, Any]:
    """What goes for all tasks unless told otherwise.

    Three retries, a lease's length apart: the lease of a run that was killed on another host can
    be taken over two lengths after its last renewal, so the last try finds it free.
    """
    return {
        "owner": "tidemark",
        "retries": 3,
        "retry_delay": timedelta(seconds=settings.lease_seconds),
    }


def settings_of(
    settings: str | Path | None, root: str | Path | None, used: Settings
) -> dict[str, str | None]:
    """What a task is given so that it uses the settings that its Dag was made of, wherever it runs:
    the file and the root, where they were named in the Dag's file."""
    return {
        "settings_file": str(Path(settings).absolute()) if settings else None,
        "root": used.root if root else None,
    }


def pipeline_tasks(
    pipeline: Pipeline,
    places: Places,
    conn_id: str,
    skipped_when_idle: bool = False,
    **files: Any,
) -> list[BaseOperator]:
    """The tasks, in their order, in the Dag or group that is open. `skipped_when_idle`: those after
    the first are skipped where a run has changed nothing, which whatever waits for them would be
    too. `files` are what each task reads: `pipeline_file`, `settings_file` and `root`.

    The first tasks each need the one before; those after `publish` are teardowns: they run whatever
    became of it, and what follows a group of these tasks does not wait for them.
    """
    stream = StreamOperator(task_id="stream", doc_md=TASK_DOCS["stream"], conn_id=conn_id, **files)
    held = XComArg(stream, key="result")
    validate = ValidateOperator(
        task_id="validate", doc_md=TASK_DOCS["validate"], held=held, **files
    )
    publish = PublishOperator(
        task_id="publish",
        doc_md=TASK_DOCS["publish"],
        result=held,
        outlets=[asset_of(table, places) for table in pipeline.tables],
        **files,
    )
    tasks = upkeep_tasks([stream, validate, publish], conn_id, files)
    if skipped_when_idle:
        stream.followers = [task.task_id for task in tasks[1:]]
    return tasks


def upkeep_tasks(
    after: Sequence[BaseOperator], conn_id: str, files: dict[str, Any]
) -> list[BaseOperator]:
    """Some tasks one after the other, and behind them those of upkeep, as teardowns."""
    housekeeping = CheckpointHousekeepingOperator(
        task_id="checkpoint_housekeeping", doc_md=TASK_DOCS["checkpoint_housekeeping"], **files
    )
    check = StateCheckOperator(task_id="state_check", doc_md=TASK_DOCS["state_check"], **files)
    compact = CompactStateOperator(
        task_id="compact_state",
        doc_md=TASK_DOCS["compact_state"],
        checked=XComArg(check),
        conn_id=conn_id,
        **files,
    )
    tasks = [*after, *(task.as_teardown() for task in (housekeeping, check, compact))]
    chain(*tasks)
    return tasks
