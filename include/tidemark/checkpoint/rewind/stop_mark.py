"""The stop mark: a file of the offset log on which no query starts, and none goes on.

Between the table's commit and the last file that goes, checkpoint and sink do not fit: a query that
started there would pass over batches in silence. So the newest file of `offsets` is of a version
that no engine knows: a start stops with `INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION` (older
versions: `UnsupportedLogVersion`; MetadataVersionUtil.validateVersion), and a query that runs
finds the number of its next batch taken and stops as well (`CONCURRENT_STREAM_LOG_UPDATE`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tidemark.checkpoint.reading.checksums import twin_of
from tidemark.checkpoint.reading.layout import sort_files
from tidemark.checkpoint.reading.log_formats import STOP_MARK
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, FileInTheWay, FileMissing, read_bytes, write_bytes
from tidemark.storage.json_text import json_value, number_of


@dataclass(frozen=True)
class StopMark:
    """Where the mark lies in the checkpoint, and which backup it leads to."""

    name: str
    backup: str

    @property
    def files(self) -> tuple[str, ...]:
        """The mark, and the checksum that an engine's tools may have put beside it."""
        return twin_of(self.name), self.name

    @property
    def content(self) -> bytes:
        return f"{STOP_MARK}\n{json.dumps({'backup': self.backup})}".encode()


def stop_mark(place: FilePlace, files: Mapping[str, FileFacts]) -> StopMark | None:
    """The mark that a change left which is not finished; None where there is none."""
    newest = max(sort_files(files).logs["offsets"], default=None)
    if newest is None:
        return None
    first, _, rest = place.read(f"offsets/{newest}").decode(errors="replace").partition("\n")
    if first != STOP_MARK:
        return None
    try:
        return StopMark(f"offsets/{newest}", str(json_value(rest)["backup"]))
    except (ValueError, KeyError, TypeError) as error:
        raise RewindRefused(
            f"{place.uri}/offsets/{newest} is the mark of a rewind that was not finished, and does "
            "not tell its backup. Restore the backup that was printed then: `tidemark checkpoint "
            "restore BACKUP` says how."
        ) from error


def next_mark(names: Iterable[str], backup: str) -> StopMark:
    """The mark after the newest batch that is planned, by the names of all files."""
    planned = newest_logged("offsets", names)
    return StopMark(f"offsets/{0 if planned is None else planned + 1}", backup)


def newest_logged(log: str, names: Iterable[str]) -> int | None:
    """The newest batch of `offsets` or `commits`, by the names of all files; None for none."""
    logged = (name.removeprefix(f"{log}/") for name in names if name.startswith(f"{log}/"))
    return max((batch for name in logged if (batch := number_of(name)) is not None), default=None)


@commit_point(
    "checkpoint stopped",
    after_a_kill="before: only a backup was made; after: no query starts, and a repetition "
    "finishes what the backup's plan says",
)
def put_mark(place: FilePlace, mark: StopMark) -> None:
    """RewindRefused where a query has planned that batch meanwhile; nothing was changed then."""
    place.fence()
    try:
        write_bytes(place.below(mark.name), mark.content, place.options, create_only=True)
    except FileInTheWay as error:
        raise RewindRefused(
            f"A query works on {place.uri}: it has just planned {mark.name}. Nothing was changed. "
            "Stop it, and try again."
        ) from error


def held_by(place: FilePlace, mark: StopMark) -> FilePlace:
    """The checkpoint for whoever has put this mark, or goes on behind it: its fence raises
    RewindRefused where the mark is not there any more."""
    return replace(place, fence=partial(_check_there, place, mark))


def _check_there(place: FilePlace, mark: StopMark) -> None:
    with suppress(FileMissing):
        if read_bytes(place.below(mark.name), place.options) == mark.content:
            return
    raise RewindRefused(
        f"{place.uri}/{mark.name} is not the mark of this change any more: another command has "
        "ended it meanwhile, and a query may have started since. This one has changed nothing "
        "after that. `tidemark checkpoint doctor` says how the checkpoint stands."
    )


@commit_point(
    "checkpoint released",
    after_a_kill="before: no query starts; a repetition looks at all again; after: it is done",
)
def remove_mark(place: FilePlace, mark: StopMark) -> None:
    """From here on a query may start."""
    place.remove_files([place.below(name) for name in mark.files])
