"""Tables of other pipelines that join with a bronze which went back: each begins a generation.

Their own bronze stays as it is, and what is closed in them stays closed: it is computed again from
what both bronzes hold now, and corrected as the rows come again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.errors import TidemarkError
from tidemark.gold.plan import noted_name
from tidemark.operators.operator import BRONZE
from tidemark.operators.repaired import MIGRATION
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import find_pipeline
from tidemark.recompute.rewind.change import PipelineChange, Reader
from tidemark.recompute.rewind.result import LeftReader
from tidemark.runs.requests import MigrationRequest, RewindRequest
from tidemark.runs.run import Run
from tidemark.storage.delta.notes import RewoundNote, note_of
from tidemark.streaming.jobs.act import JobAct
from tidemark.streaming.jobs.migrate import migrate_once
from tidemark.streaming.progress import Progress


def begin_readers(act: JobAct[RewindRequest], change: PipelineChange) -> tuple[LeftReader, ...]:
    """Under the leases of those pipelines; those that could not begin one."""
    back_at = _back_at(act.run, change)
    if back_at is None:
        return ()
    left = []
    for reader in change.readers:
        why = _begin(act, change, reader, back_at)
        if why is not None:
            left.append(LeftReader(**reader.model_dump(), why=why))
    return tuple(left)


def _back_at(run: Run, change: PipelineChange) -> int | None:
    """The version by which bronze went back; None where it has not."""
    for commit in run.warehouse.bronze.existing().history():
        note = note_of(commit)
        if isinstance(note, RewoundNote) and note.id == change.id:
            return int(commit["version"])
    return None


def _begin(
    act: JobAct[RewindRequest], change: PipelineChange, reader: Reader, back_at: int
) -> str | None:
    run = act.run
    try:
        pipeline = find_pipeline(reader.pipeline, run.settings)
    except TidemarkError as error:
        return str(error)
    if reader.table not in pipeline.tables:
        return f"the file of {reader.pipeline} has no such table any more"
    now = datetime.now(UTC)
    other = Run(
        pipeline,
        run.settings,
        f"{change.run_id}__{reader.table}",
        epoch_ms(now),
        MIGRATION,
        by=run.by,
        dag=run.dag,
    )
    if _reads_from(other, reader.table, run) >= back_at:
        return None
    act.progress.say(f"{reader.table} of {reader.pipeline} joins with it, and begins a generation")
    request = MigrationRequest(pipeline=pipeline.name, table=reader.table, rebuild=True)
    done = migrate_once(
        JobAct(other, request, Progress(pipeline.name), now, act.session, act.on_lapse)
    )
    return None if done.error is None else done.error.message


def _reads_from(other: Run, table: str, run: Run) -> int:
    """The version of the bronze that gold of a reader stands for; -1 for none."""
    gold = other.warehouse.gold(table).open()
    if gold is None:
        return -1
    identity = str(run.warehouse.bronze.existing().metadata().id)
    name = noted_name(f"{BRONZE}/{run.pipeline.name}", identity)
    version = gold.transaction_version(name)
    return -1 if version is None else version
