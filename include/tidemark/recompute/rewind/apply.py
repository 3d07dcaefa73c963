"""A planned rewind carried out, up to where Spark computes the tables' new generations.

The life of a rewind, under the pipeline's lease:
1. copy the ingest's checkpoint, and last the plan (`keep_backup`);
2. stop the pipeline: nothing else of it runs until 8 (`runs/unfinished_act.py`);
3. rejects and bronze as they were, their transactions lowered, each in one commit;
4. the checkpoint's files after the batch go, or come back from a backup; the source's notes too;
5. gold of each table as it was, with its frontier, in one commit each;
6. each table begins a generation from bronze (`streaming/jobs/rewind.py`);
7. the ledger's lines that count are settled, `ops/upkeep` gets a row, all is looked at again
   (`prove.py`), and tables of other pipelines that join with it begin a generation too;
8. the pipeline goes on.
Killed anywhere after 1, a repetition finishes what the plan says, and an undo takes it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.rewind.backup import copy_files
from tidemark.checkpoint.rewind.plan import damage_of
from tidemark.checkpoint.rewind.read import list_checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused, RewindUnproven
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.plan import noted_name
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.recompute.plans import write_plan
from tidemark.recompute.rewind.change import (
    GoldBack,
    IngestBack,
    PipelineChange,
    TableBack,
)
from tidemark.recompute.rewind.input import copied_checkpoint
from tidemark.runs.found import REJECTS
from tidemark.runs.generations import REWIND
from tidemark.runs.losses import find_losses
from tidemark.runs.unfinished_act import rewind_folder
from tidemark.sources.notes import notes_place
from tidemark.storage.delta.append import on_this_version
from tidemark.storage.delta.appended import changes_rows
from tidemark.storage.delta.dropped_rejects import DROPPED, dropped_to
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.notes import Note, PublishedNote, RewoundNote, note_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import FileMissing, write_bytes
from tidemark.storage.generation import generation_in_use
from tidemark.storage.warehouse import Warehouse


@commit_point(
    "pipeline backed up",
    after_a_kill="before and in between: a part of a backup, which nobody reads; after: a backup; "
    "the pipeline is as it was, and a repetition makes a new one",
)
def keep_backup(change: PipelineChange, warehouse: Warehouse) -> None:
    """Copy what the plan saw of the ingest's checkpoint, and then the plan. RewindRefused where a
    file is gone: something else works on the checkpoint."""
    backup, ingest = rewind_folder(warehouse, change.id), ingest_checkpoint(warehouse)
    try:
        copy_files(ingest, copied_checkpoint(warehouse, change.id), change.ingest.listed)
    except FileMissing as error:
        raise RewindRefused(
            f"Something else works on {ingest.uri}: {error} Nothing was changed."
        ) from error
    if change.ingest.notes_before is not None:
        notes = notes_place(copied_checkpoint(warehouse, change.id))
        write_bytes(notes, change.ingest.notes_before.encode(), backup.options)
    write_plan(backup, change)


def take_back(change: PipelineChange, warehouse: Warehouse, lease: int) -> None:
    """Bronze, rejects, the ingest's checkpoint and gold; what is done already is not done again.

    `lease` is the lease's number, with which the tables are fenced anew: a restore brings back what
    they said of an earlier owner. Raises RewindRefused where somebody else changed rows since.
    """
    for place, back in ((warehouse.rejects, change.rejects), (warehouse.bronze, change.bronze)):
        _take_back(place, back, lease, _ingested(change, place, back))
    _take_back_checkpoint(change.ingest, warehouse)
    for gold in change.golds:
        if gold.back is not None and not gold.stays and not _has_begun(warehouse, gold):
            transactions = _transactions(change, gold, warehouse)
            note = PublishedNote(run=change.run_id, started_at=change.planned_at, trigger=REWIND)
            _take_back(warehouse.gold(gold.table), gold.back, lease, (note, transactions))


def left_to_begin(change: PipelineChange, warehouse: Warehouse) -> Iterator[str]:
    """The tables that have not begun their new generation yet."""
    return (gold.table for gold in change.golds if not _has_begun(warehouse, gold))


def _has_begun(warehouse: Warehouse, gold: GoldBack) -> bool:
    return generation_in_use(warehouse, gold.table) > gold.newest_generation


def _ingested(
    change: PipelineChange, place: TablePlace, back: TableBack
) -> tuple[Note, dict[str, int]]:
    note = RewoundNote(id=change.id, to_version=back.version)
    transactions = {change.ingest.query: back.batch}
    then = dropped_to(place.at_version(back.version))
    if then != dropped_to(place.existing()):
        # Rejects that were dropped since are there again.
        transactions[DROPPED] = then
    return note, transactions


def _transactions(change: PipelineChange, gold: GoldBack, warehouse: Warehouse) -> dict[str, int]:
    """Gold's transactions as they were, but bronze and rejects are at the versions that they
    went back by."""
    transactions = dict(gold.transactions)
    for name, place in ((BRONZE, warehouse.bronze), (REJECTS, warehouse.rejects)):
        table = place.existing()
        noted = noted_name(name, str(table.metadata().id))
        transactions |= {one: table.version() for one in (name, noted) if one in transactions}
    noted = noted_name(INGEST, change.ingest.query)
    if noted in transactions:
        transactions[noted] = min(transactions[noted], change.ingest.batch)
    return transactions


def _take_back(
    place: TablePlace, back: TableBack, lease: int, noted: tuple[Note, dict[str, int]]
) -> None:
    note, transactions = noted
    if back.version == back.seen:
        return
    if not _is_back(place, back, note):
        _restore(place, back, note, transactions)
    _set_again(place, back.properties)
    place.fence()
    fence_tables([place], lease)


@commit_point(
    "properties set again",
    after_a_kill="before: the table has those of then, and no run starts; after: also those that "
    "were set since; a repetition sets what it lacks",
)
def _set_again(place: TablePlace, properties: Mapping[str, str]) -> None:
    table = place.existing()
    found = table.metadata().configuration
    lacking = {name: value for name, value in properties.items() if found.get(name) != value}
    if lacking:
        place.fence()
        table.alter.set_table_properties(lacking, raise_if_not_exists=False)


def _is_back(place: TablePlace, back: TableBack, note: Note) -> bool:
    """Has this rewind taken the table back already? RewindRefused where rows changed otherwise."""
    table = place.existing()
    newer = table.version() - back.seen
    for commit in table.history(newer) if newer > 0 else []:
        if note_of(commit) == note:
            return True
        if changes_rows(place, int(commit["version"])):
            raise RewindRefused(
                f"{place.uri} got rows in version {commit['version']} ({commit.get('operation')}) "
                f"since the rewind was planned at version {back.seen}: something writes to it "
                "that takes no lease. The pipeline is stopped. Stop who writes, and take the "
                "rewind back (--undo), or begin it anew."
            )
    return False


@commit_point(
    "table of a pipeline taken back",
    after_a_kill="before: the table is as it was, and no run starts; after: it is as it was then, "
    "and a repetition sees the note in its commit",
)
def _restore(place: TablePlace, back: TableBack, note: Note, transactions: dict[str, int]) -> None:
    table: DeltaTable = place.existing()
    place.fence()
    try:
        # What was planned is one certain version: another commit before it has to be looked at.
        table.restore(back.version, commit_properties=on_this_version(note, transactions))
    except (DeltaError, OSError) as error:
        raise RewindRefused(
            f"{place.uri} was not restored to version {back.version}: "
            f"{str(error).splitlines()[0]}. The pipeline is stopped. Give the command again, or "
            "take the rewind back by --undo."
        ) from error


@commit_point(
    "ingest's checkpoint taken back",
    after_a_kill="before and in between: files of later batches are left, and no run starts; "
    "after: none are; a repetition removes the rest",
)
def _take_back_checkpoint(back: IngestBack, warehouse: Warehouse) -> None:
    ingest = ingest_checkpoint(warehouse)
    ingest.fence()
    ingest.remove_files([ingest.below(name) for name in back.removed])
    if back.restored_from is not None:
        copies = copied_checkpoint(warehouse, back.restored_from)
        copy_files(copies, ingest, checkpoint_files(copies))
    notes = notes_place(ingest)
    ingest.fence()
    if back.notes is not None:
        write_bytes(notes, back.notes.encode(), warehouse.options)
    elif back.notes_before is not None:
        ingest.remove_files([notes])


def prove(change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse, now: datetime) -> None:
    """RewindUnproven where tables and checkpoint are not what was planned, or do not fit each
    other: the pipeline stays stopped. `now` is in UTC."""
    wrong = tuple(_wrong(change, pipeline, warehouse, now))
    if wrong:
        raise RewindUnproven(
            f"{pipeline.name} was to be {change.to}, but what is there now is not what was planned:"
            f" {' '.join(wrong)} No run starts. Bring back what was: `tidemark rewind "
            f"{pipeline.name} --undo {change.id} --apply`."
        )


def _wrong(
    change: PipelineChange, pipeline: Pipeline, warehouse: Warehouse, now: datetime
) -> Iterator[str]:
    ingest = ingest_checkpoint(warehouse)
    yield from damage_of(judge_checkpoint(list_checkpoint(ingest).facts, now))
    newest = ingest.last_batch("commits")
    if (-1 if newest is None else newest) != change.ingest.batch:
        yield f"The newest commit of {ingest.uri} is {newest}, not {change.ingest.batch}."
    for place, back in ((warehouse.bronze, change.bronze), (warehouse.rejects, change.rejects)):
        batch = place.existing().transaction_version(change.ingest.query)
        if (-1 if batch is None else batch) != back.batch:
            yield f"{place.uri} holds batches up to {batch}, not up to {back.batch}."
    for table in left_to_begin(change, warehouse):
        yield f"{table} has begun no new generation."
    yield from map(str, find_losses(pipeline, warehouse))
