"""What a replay of rejects does, once Spark has judged them: three commits of files that are there.

The life of an act, once its plan is kept and the pipeline is stopped:
1. the rows are appended to bronze, each with where it came from and the batch that rejected it: to
   whoever reads bronze they are rows that come late;
2. their rejects are appended to `replayed`, with the act;
3. the files of rejects that held them are replaced by files of the rows that stay.
The first two are known by their transaction, the last one by its note. Killed anywhere behind the
plan, a repetition makes the commits that are not made, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow.dataset as ds
from deltalake import Transaction

from tidemark.commit_point import commit_point
from tidemark.errors import ReplayRefused, ReplayUnproven
from tidemark.ledger.ledger import write_ledger
from tidemark.ledger.lines import replay_line
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import Pipeline
from tidemark.recompute.act_row import record_upkeep_of
from tidemark.recompute.plans import write_plan
from tidemark.recompute.replay.change import Replay
from tidemark.recompute.still_planned import check_files_there, check_no_other_rows
from tidemark.runs.losses import find_losses
from tidemark.runs.unfinished_act import release_after
from tidemark.storage.delta.commits import commit_noting, rows_of
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import REPLAY as ACT
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.written_files import (
    Leaving,
    WrittenFile,
    add_files,
    files_gone,
    rewrite_files,
)
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import REPLAY


@commit_point(
    "replay planned",
    after_a_kill="before and after: the pipeline is as it was; a repetition makes another plan",
)
def keep_replay(change: Replay, warehouse: Warehouse) -> None:
    """Write the plan into the folder of its act."""
    write_plan(change.act.folder(warehouse), change)


def carry_out(change: Replay, warehouse: Warehouse) -> None:
    """All three commits; one that was made already is not made again. ReplayUnproven where the
    tables are not what they were when it was planned. ReplayRefused, and the pipeline goes on,
    where files of the plan are gone before the first commit."""
    written = (
        (warehouse.bronze, change.to_bronze),
        (warehouse.replayed, change.to_replayed),
        (warehouse.rejects, change.staying),
    )
    gone = [file for place, files in written for file in files_gone(place, files)]
    if gone and not _has_appended(warehouse.bronze, change):
        release_after(warehouse)
        raise ReplayRefused(
            f"{gone[0]}, which the replay {change.id} of {change.pipeline} wrote, is gone, by "
            "VACUUM. None of its rows was moved, and the pipeline goes on. Replay the rejects anew."
        )
    _append(change, warehouse)
    _copy(change, warehouse)
    _take_out(change, warehouse)


def _has_appended(place: TablePlace, change: Replay) -> bool:
    return place.existing().transaction_version(change.note.transaction) is not None


@commit_point(
    "replayed rows in bronze",
    after_a_kill="before: they are in rejects alone, no run starts, and a repetition appends them; "
    "after: a repetition sees the transaction in bronze, and makes the other commits",
)
def _append(change: Replay, warehouse: Warehouse) -> None:
    if not _has_appended(warehouse.bronze, change):
        act = f"the replay {change.id}"
        check_no_other_rows(warehouse.bronze, change.bronze, act, ReplayUnproven)
    _add(change, warehouse.bronze, change.to_bronze)


@commit_point(
    "rejects copied to `replayed`",
    after_a_kill="before: bronze has their rows, no run starts, and a repetition copies them; "
    "after: a repetition sees the transaction in `replayed`",
)
def _copy(change: Replay, warehouse: Warehouse) -> None:
    _add(change, warehouse.replayed, change.to_replayed)


def _add(change: Replay, place: TablePlace, files: Sequence[WrittenFile]) -> None:
    table = place.existing()
    if table.transaction_version(change.note.transaction) is None:
        check_files_there(place, files, ReplayUnproven)
        place.fence()
        transaction = Transaction(change.note.transaction, 0)
        add_files(table, files, "rejects that are replayed", transaction, change.note)


@commit_point(
    "replayed rejects taken out of rejects",
    after_a_kill="before: they are in both tables, no run starts, and a repetition "
    "takes them out; after: a repetition sees the note in the commit of rejects",
)
def _take_out(change: Replay, warehouse: Warehouse) -> None:
    place = warehouse.rejects
    table = place.existing()
    if commit_noting(table, change.note, change.rejects) is None:
        check_no_other_rows(place, change.rejects, f"the replay {change.id}", ReplayUnproven)
        check_files_there(place, change.staying, ReplayUnproven)
        place.fence()
        what, now = "the rejects that stay", datetime.now(UTC)
        leaving = Leaving(change.rejects, change.leaving, change.rows)
        rewrite_files(table, place, leaving, change.staying, what, change.note, now)


def account_for(change: Replay, warehouse: Warehouse, now: datetime) -> None:
    """The ledger's line of the act, once. `now` is in UTC."""
    commit = commit_noting(warehouse.bronze.existing(), change.note, change.bronze)
    of_bronze = None if commit is None else rows_of(commit)
    line = replay_line(change.id, _in_replayed(change, warehouse), of_bronze)
    scheduled = epoch_ms(change.planned_at)
    write_ledger(warehouse.ledger, change.pipeline, change.run_id, scheduled, [line], now)


def record_replay(change: Replay, warehouse: Warehouse) -> None:
    """Its row in `ops/upkeep`, once."""
    told = {"id": change.id, "reason": change.reason, "by": change.by, "rows": change.rows}
    said = {
        "place": "bronze",
        "verdict": f"{change.rows} rejects {change.what}",
        "replay": told,
    }
    record_upkeep_of(change, REPLAY, warehouse.upkeep, said)


def prove(change: Replay, pipeline: Pipeline, warehouse: Warehouse) -> None:
    """ReplayUnproven where tables are not what was planned, or do not fit each other: the pipeline
    stays stopped."""
    if wrong := tuple(_wrong(change, pipeline, warehouse)):
        raise ReplayUnproven(
            f"What the replay {change.id} left of {pipeline.name} is not what was planned: "
            f"{' '.join(wrong)} No run starts. Nothing is lost: each reject is in "
            f"{warehouse.rejects.uri} or in {warehouse.replayed.uri}. Mend what is said, then "
            f"`tidemark rejects replay {pipeline.name} --apply` looks again."
        )


def _wrong(change: Replay, pipeline: Pipeline, warehouse: Warehouse) -> Iterator[str]:
    for place, seen in ((warehouse.bronze, change.bronze), (warehouse.rejects, change.rejects)):
        if commit_noting(place.existing(), change.note, seen) is None:
            yield f"No commit of {place.uri} says that it moved them."
    if (found := _in_replayed(change, warehouse)) != change.rows:
        yield f"{warehouse.replayed.uri} holds {found:,} of its rows, not {change.rows:,}."
    yield from map(str, find_losses(pipeline, warehouse))


def _in_replayed(change: Replay, warehouse: Warehouse) -> int:
    rows = dataset_of(warehouse.replayed.existing(), f"{ACT} = '{change.id}'")
    return rows.count_rows(ds.field(ACT) == change.id)
