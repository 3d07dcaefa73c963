"""A checkpoint and its sink brought back to what they were when a backup was made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tidemark.checkpoint.housekeeping.housekeep import check_no_pipeline
from tidemark.checkpoint.reading.layout import LOGS
from tidemark.checkpoint.reading.log_formats import parse_metadata
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.reader import CheckpointReader
from tidemark.checkpoint.rewind.apply import listed_without_mark, sink_table, without_mark
from tidemark.checkpoint.rewind.backup import CHECKPOINT, copy_files, read_backup
from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.files_sink import bring_back_sink_log
from tidemark.checkpoint.rewind.named import not_named, restore_command
from tidemark.checkpoint.rewind.plan import NO_SINK, seems_to_run
from tidemark.checkpoint.rewind.read import listed
from tidemark.checkpoint.rewind.repair import METADATA
from tidemark.checkpoint.rewind.sinks import OTHER, Sink
from tidemark.checkpoint.rewind.stop_mark import (
    StopMark,
    held_by,
    newest_logged,
    next_mark,
    put_mark,
    remove_mark,
    stop_mark,
)
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused, RewindUnproven
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts


@dataclass(frozen=True)
class RestorePlan:
    """What a restore would do. `going`: files of the checkpoint that were not there then.
    `table_stays`: it was not taken back yet. `refused`: why it is not done."""

    change: CheckpointChange
    backup: str
    going: tuple[str, ...]
    mark: StopMark | None
    refused: tuple[str, ...] = ()
    table_stays: bool = False


def plan_restore(
    backup: FilePlace,
    now: datetime,
    stopped: bool = False,
    checkpoint: str | None = None,
    sink: Sink | None = None,
) -> RestorePlan:
    """Read a backup, and what stands in its place now. `checkpoint` and `sink` are named beside the
    backup; refused where it would change others. RewindRefused where it is no backup, or one of a
    pipeline's checkpoint."""
    change = read_backup(backup)
    place = FilePlace(change.uri, backup.options)
    check_no_pipeline(place)
    files = _files_left(place)
    mark = stop_mark(place, files)
    reasons = list(not_named(change, backup.uri, checkpoint, sink))
    if reasons:
        # The table of others is not even opened.
        how = f"If you mean these places: `{restore_command(change, backup.uri)}`."
        return RestorePlan(change, backup.uri, _going(change, files, mark), mark, (*reasons, how))
    if mark is not None and mark.backup != backup.uri:
        reasons.append(
            f"A change of {place.uri} was begun whose backup is {mark.backup}: finish that first, "
            "or restore its backup."
        )
    elif mark is None and not stopped and files.keys() != change.left:
        # Where there are no others than it left, nothing has run since.
        reasons.append(seems_to_run(listed(place, files), now) or "")
    stays = False
    if change.table is not None:
        from tidemark.checkpoint.rewind.table_restore import plan_bringing_back

        table = plan_bringing_back(change.table, sink_table(change.table, place), backup.uri)
        stays = table.table is None
        reasons.append(table.refused or "")
    if change.table is None and change.sink_log is None and mark is None:
        reasons.append(_sink_ahead(change, place, backup, sink) or "")
    going = _going(change, files, mark)
    return RestorePlan(change, backup.uri, going, mark, tuple(r for r in reasons if r), stays)


def _sink_ahead(
    change: CheckpointChange, place: FilePlace, backup: FilePlace, sink: Sink | None
) -> str | None:
    """Why a sink that the change did not touch may have batches that the checkpoint would not."""
    if sink is None:
        return None if change.sink == OTHER else NO_SINK
    planned, committed = (newest_logged(log, change.listed) for log in LOGS)
    # A repair may have written the id anew, and the query have run by that.
    held = [
        CheckpointReader(folder, {}).read(METADATA, parse_metadata)
        for folder in (place, backup.folder(CHECKPOINT))
    ]
    ids = {query_id for query_id in held if isinstance(query_id, str)} or {""}
    apart = sink.apart(ids, planned, committed)
    return apart and (
        f"{apart} `tidemark checkpoint rewind {place.uri}` with --to-batch and --sink takes both "
        "back together."
    )


def _files_left(place: FilePlace) -> dict[str, FileFacts]:
    """The files that are there now: none where the whole folder is gone. NotACheckpoint where it
    holds something else."""
    return checkpoint_files(place) if place.names() else {}


def _going(
    change: CheckpointChange, files: Iterable[str], mark: StopMark | None
) -> tuple[str, ...]:
    marks = mark.files if mark else ()
    return tuple(name for name in files if name not in change.listed and name not in marks)


def apply_restore(plan: RestorePlan, backup: FilePlace) -> None:
    """Stop, bring back sink and files, look, release. Killed anywhere, a repetition finishes."""
    place = FilePlace(plan.change.uri, backup.options)
    if plan.refused:
        raise RewindRefused(
            f"{place.uri} is not brought back. Nothing was changed. {' '.join(plan.refused)}"
        )
    mark = plan.mark
    if mark is None:
        # Where a query that runs would plan its next batch, and stops.
        mark = next_mark(_files_left(place), backup.uri)
        put_mark(place, mark)
    place = held_by(place, mark)
    # Newer than what is copied back too, for the newest file is the one that stops a start. The
    # first mark gives way to the backup's file of its name.
    above = next_mark([*without_mark(place, mark), *plan.change.listed], backup.uri)
    if above != mark:
        put_mark(place, above)
        mark, place = above, held_by(place, above)
    change = plan.change
    if change.table is not None:
        from tidemark.checkpoint.rewind.table_restore import bring_back_table

        bring_back_table(change.table, sink_table(change.table, place), backup.uri)
    if change.sink_log is not None:
        log = FilePlace(change.sink_log.uri, place.options, place.fence)
        bring_back_sink_log(change.sink_log, log, backup)
    bring_back_files(change, place, backup, mark)
    _check_brought_back(change, place, mark)
    remove_mark(place, mark)


@commit_point(
    "checkpoint brought back",
    after_a_kill="before and in between: some files of the backup, and no query starts; after: "
    "all are as in the backup; a repetition copies them again",
)
def bring_back_files(
    change: CheckpointChange, place: FilePlace, backup: FilePlace, mark: StopMark
) -> None:
    """Make the checkpoint what it is in the backup, but for the stop mark."""
    there = without_mark(place, mark)
    place.remove_files([place.below(name) for name in there if name not in change.listed])
    copy_files(backup.folder(CHECKPOINT), place, change.listed)


def _check_brought_back(change: CheckpointChange, place: FilePlace, mark: StopMark) -> None:
    there = {name: facts.size for name, facts in without_mark(place, mark).items()}
    if unlike := there.items() ^ listed_without_mark(change, mark).items():
        raise RewindUnproven(
            f"{place.uri} is not what it was: {len(dict(unlike))} files differ. "
            f"No query can start on it ({mark.name} stops it). Give the command again."
        )
