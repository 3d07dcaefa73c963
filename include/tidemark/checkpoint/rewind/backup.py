"""The backup of a checkpoint, and of a file sink's log: copies of all files, and the plan beside.

`BACKUP/checkpoint` and `BACKUP/sink_log` hold the copies. The plan is written first, as
`BACKUP/begun.json`, and last, as `BACKUP/change.json`: a backup that has that is whole, and one
that has the first alone is finished by the command that began it. Tables and data files are not
copied: a table keeps its versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tidemark.checkpoint.rewind.change import CheckpointChange, change_from_json
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileMissing, copy_file, write_bytes

CHECKPOINT, SINK_LOG = "checkpoint", "sink_log"
_BEGUN, _CHANGE = "begun.json", "change.json"
_AT_ONCE = 16
_BETWEEN_FENCES = 100


@commit_point(
    "checkpoint backed up",
    after_a_kill="before and in between: a part of a backup, which nobody reads; after: a backup "
    "that no mark leads to; the checkpoint is as it was, and a repetition copies all again",
)
def make_backup(change: CheckpointChange, place: FilePlace, backup: FilePlace) -> None:
    """Copy what the plan saw, and then the plan. RewindRefused where the backup's folder holds
    anything but a part of this backup, or where a file is gone: a query works on the checkpoint
    then."""
    if backup.names() and not _begun(change, backup):
        raise RewindRefused(
            f"{backup.uri} holds something already: give another folder by --backup. Nothing was "
            "changed."
        )
    write_bytes(backup.below(_BEGUN), change.as_json(), backup.options)
    try:
        copy_files(place, backup.folder(CHECKPOINT), change.listed)
        if change.sink_log is not None:
            log = FilePlace(change.sink_log.uri, place.options)
            copy_files(log, backup.folder(SINK_LOG), change.sink_log.listed)
    except FileMissing as error:
        raise RewindRefused(
            f"A query works on {place.uri}, or its sink is being cleaned: {error} Nothing was "
            f"changed; {backup.uri} is a part of a backup, and may be removed. Stop the query, and "
            "try again."
        ) from error
    write_bytes(backup.below(_CHANGE), change.as_json(), backup.options)


def _begun(change: CheckpointChange, backup: FilePlace) -> bool:
    """Did a kill leave this change's backup there?"""
    return _BEGUN in backup.names() and backup.read(_BEGUN) == change.as_json()


def read_backup(backup: FilePlace) -> CheckpointChange:
    """The plan that a backup was made for. RewindRefused where the place is no whole backup."""
    try:
        return change_from_json(backup.read(_CHANGE), backup.below(_CHANGE))
    except FileMissing as error:
        raise RewindRefused(
            f"{backup.uri} is no backup of a rewind or a repair, or one that was not finished: it "
            f"has no {_CHANGE}. Before that is there, nothing of a checkpoint is changed. Give "
            "the folder that was printed as `backup`."
        ) from error


def copy_files(source: FilePlace, target: FilePlace, names: Iterable[str]) -> None:
    """Copy files from folder to folder, by their names. The target's fence is asked before the
    first one, and now and then."""
    copy, every = partial(_copy, source, target), list(names)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(every), _BETWEEN_FENCES):
            target.fence()
            for _ in pool.map(copy, every[start : start + _BETWEEN_FENCES]):
                pass


def _copy(source: FilePlace, target: FilePlace, name: str) -> None:
    copy_file(source.below(name), target.below(name), source.options)
