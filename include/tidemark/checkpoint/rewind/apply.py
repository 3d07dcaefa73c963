"""A planned change carried out, and finished where a kill ended it; the doctor judges the rest."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.rewind.backup import make_backup, read_backup
from tidemark.checkpoint.rewind.change import CheckpointChange, TableChange
from tidemark.checkpoint.rewind.files_sink import take_back_sink_log
from tidemark.checkpoint.rewind.named import (
    check_named_backup,
    not_named,
    restore_command,
    sink_option,
)
from tidemark.checkpoint.rewind.plan import ChangePlan, damage_of
from tidemark.checkpoint.rewind.read import CheckpointSnapshot, listed
from tidemark.checkpoint.rewind.sinks import Sink
from tidemark.checkpoint.rewind.stop_mark import (
    StopMark,
    held_by,
    next_mark,
    put_mark,
    remove_mark,
    stop_mark,
)
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused, RewindUnproven
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, write_bytes

if TYPE_CHECKING:
    from tidemark.storage.delta.place import TablePlace


def apply_plan(
    plan: ChangePlan, place: FilePlace, backup: FilePlace, now: datetime
) -> CheckpointSnapshot:
    """Back up, stop, change, look, release; the checkpoint as it is then.

    Raises RewindRefused where the plan is refused, or somebody writes to the checkpoint or the
    table meanwhile; RewindUnproven where the outcome is not what was planned. `now` is in UTC.
    """
    if plan.refused:
        raise RewindRefused(
            f"{place.uri} is not {plan.change.title}. Nothing was changed. {' '.join(plan.refused)}"
        )
    make_backup(plan.change, place, backup)
    mark = next_mark(checkpoint_files(place), backup.uri)
    put_mark(place, mark)
    place = held_by(place, mark)
    _check_unchanged(plan.change, place, mark)
    try:
        _take_back_sink(plan.change, place, mark)
    except RewindRefused:
        if _sink_is_as_it_was(plan.change, place):
            remove_mark(place, mark)
        raise
    return finish(plan.change, place, mark, now)


def unfinished(
    place: FilePlace, sink: Sink | None, backup: str | None
) -> tuple[ChangePlan, StopMark] | None:
    """What is left of a change that was begun on a checkpoint and not finished; None where there is
    none. `sink` and `backup`: what the command names. Refused where the change names other places;
    RewindRefused where the mark leads to another backup."""
    mark = stop_mark(place, checkpoint_files(place))
    if mark is None:
        return None
    check_named_backup(mark.backup, place.uri, backup)
    change = read_backup(FilePlace(mark.backup, place.options))
    refused = tuple(not_named(change, mark.backup, place.uri, sink))
    if refused:
        same = shlex.join(sink_option(change))
        refused += (f"Finish it by the command that began it{same and f', with {same}'}.",)
    return ChangePlan(change, None, 0, refused=refused), mark


def finish(
    change: CheckpointChange, place: FilePlace, mark: StopMark, now: datetime
) -> CheckpointSnapshot:
    """Carry out what is left to do; what is done already is not done again. RewindRefused where
    another process has ended it meanwhile."""
    place = held_by(place, mark)
    _take_back_sink(change, place, mark)
    take_back_files(change, place, mark)
    left = _proven(change, place, mark, now)
    remove_mark(place, mark)
    return left


def without_mark(place: FilePlace, mark: StopMark) -> dict[str, FileFacts]:
    """The files of a checkpoint but for the stop mark."""
    return {n: facts for n, facts in checkpoint_files(place).items() if n not in mark.files}


def listed_without_mark(change: CheckpointChange, mark: StopMark) -> dict[str, int]:
    """What a plan has listed, but for a checksum of the mark's name that was left there before: it
    goes with the mark."""
    return {name: size for name, size in change.listed.items() if name not in mark.files}


def sink_table(change: TableChange, place: FilePlace) -> TablePlace:
    """The handle of the sink, reached as the checkpoint is."""
    # delta-rs, which other sinks do without.
    from tidemark.storage.delta.place import TablePlace

    return TablePlace(change.uri, place.options, place.fence)


def _take_back_sink(change: CheckpointChange, place: FilePlace, mark: StopMark) -> None:
    if change.table is not None:
        from tidemark.checkpoint.rewind.table_restore import take_back_table

        take_back_table(change.table, sink_table(change.table, place), mark.backup)
    if change.sink_log is not None:
        log = FilePlace(change.sink_log.uri, place.options, place.fence)
        take_back_sink_log(change.sink_log, log)


def _sink_is_as_it_was(change: CheckpointChange, place: FilePlace) -> bool:
    """Has the refused change of the table made no commit?"""
    if change.table is None:
        return False
    return sink_table(change.table, place).existing().version() == change.table.seen


@commit_point(
    "checkpoint taken back",
    after_a_kill="before and in between: files of later batches are left, and no query starts; "
    "after: none are; a repetition removes the rest",
)
def take_back_files(change: CheckpointChange, place: FilePlace, mark: StopMark) -> None:
    """Remove what goes, in its order, and write what is to be written."""
    # The mark of a restore that died may have the name of a file that goes: it goes last of all.
    going = [name for name in change.removed if name not in mark.files]
    place.remove_files([place.below(name) for name in going])
    for name, text in change.written.items():
        place.fence()
        write_bytes(place.below(name), text.encode(), place.options)


def _check_unchanged(change: CheckpointChange, place: FilePlace, mark: StopMark) -> None:
    """The mark is there now, so no other batch is planned; was one since the plan?"""
    there = {name: facts.size for name, facts in without_mark(place, mark).items()}
    expected = listed_without_mark(change, mark)
    if there != expected:
        differ = sorted(dict(there.items() ^ expected.items()))
        remove_mark(place, mark)
        raise RewindRefused(
            f"A query works on {place.uri}: since the plan was made, {differ[0]} and "
            f"{len(differ) - 1} other files came, went or changed. Nothing was changed by this. "
            "Stop the query, and try again."
        )


def _proven(
    change: CheckpointChange, place: FilePlace, mark: StopMark, now: datetime
) -> CheckpointSnapshot:
    left = listed(place, without_mark(place, mark))
    wrong = [*damage_of(judge_checkpoint(left.facts, now))]
    if left.facts.commits.newest != change.last_batch:
        wrong.append(
            f"The newest commit is {left.facts.commits.newest}, and should be {change.last_batch}."
        )
    if unlike := left.files.keys() ^ (change.left - {*mark.files}):
        wrong.append(f"{len(unlike)} files are there that should not, or gone.")
    if change.table is not None:
        known = sink_table(change.table, place).existing()
        if known.transaction_version(change.table.query_id) != change.table.batch:
            wrong.append(f"The table {change.table.uri} has another transaction of the query.")
    if wrong:
        raise RewindUnproven(
            f"{place.uri} was {change.title}, but what is there now is not what was planned: "
            f"{' '.join(wrong)} No query can start on it ({mark.name} stops it). Bring back what "
            f"was: `{restore_command(change, mark.backup)}`."
        )
    return left
