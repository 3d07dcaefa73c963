"""The log of a file sink, `_spark_metadata`: which of its files are of batches after one.

Spark's file sink passes over a batch whose number is at or below the newest file of this log
(FileStreamSink.addBatch), without an error; so rows of a rewound query are lost unless the log goes
back as well. Every batch has a file, every tenth is `N.compact` and repeats all before it, and the
engine removes older ones after a while (CompactibleFileStreamLog). Data files stay: Spark reads the
ones that the log names, and the files of batches that run again are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.reading.checksums import after_checksums
from tidemark.checkpoint.reading.log_formats import (
    COMPACT,
    NotTheFormat,
    UnknownFormat,
    in_format,
    list_numbers,
    versioned_lines,
)
from tidemark.checkpoint.reading.missing import missing_ranges, numbers_of
from tidemark.checkpoint.reading.place import named_files
from tidemark.checkpoint.rewind.backup import SINK_LOG, copy_files
from tidemark.checkpoint.rewind.change import SinkLogChange
from tidemark.commit_point import commit_point
from tidemark.errors import RewindRefused
from tidemark.storage.file_place import FilePlace
from tidemark.storage.json_text import json_value

FOLDER = "_spark_metadata"


@dataclass(frozen=True)
class FilesSinkFacts:
    """The log's files by name, with their sizes; `orphans`: data files that only files of the log
    name that would go; `unread`: files of the log that would go and cannot be read, `broken` those
    that would stay."""

    uri: str
    listed: Mapping[str, int]
    removed: tuple[str, ...]
    orphans: tuple[str, ...]
    unread: tuple[str, ...]
    broken: tuple[str, ...] = ()


def read_files_sink(sink: FilePlace, batch: int) -> FilesSinkFacts:
    """Read the log of a file sink in its output folder. RewindRefused where there is none."""
    log = sink.folder(FOLDER)
    if sink.led_out([f"{FOLDER}/0"]) is not None:
        raise RewindRefused(
            f"{log.uri} is a link to a place out of {sink.uri}. Nothing was changed."
        )
    listed = {name: facts.size for name, facts in named_files(log).items()}
    numbers = list_numbers(listed)
    if not numbers:
        raise RewindRefused(
            f"{sink.uri} has no {FOLDER} with files of batches, so no file sink of Spark's has "
            "written there. Nothing was changed. Give the folder that the query writes to."
        )
    beyond = [name for name, number in numbers.items() if number > batch]
    later = sorted(beyond, key=numbers.__getitem__)
    kept, broken = _paths(log, _kept(listed, batch))
    gone, unread = _paths(log, later)
    orphans = dict.fromkeys(path for path in gone if path not in kept)
    # The newest first: a part of it removed leaves a log as an earlier batch left it.
    removed = tuple(after_checksums(reversed(later), listed))
    return FilesSinkFacts(log.uri, listed, removed, tuple(orphans), unread, broken)


def newest_batch(sink: FilePlace) -> int | None:
    """The newest batch that the log of a file sink in its output folder names; None for none."""
    return max(list_numbers(named_files(sink.folder(FOLDER))).values(), default=None)


def plan_files_sink(facts: FilesSinkFacts, batch: int) -> tuple[SinkLogChange | None, str | None]:
    """The log's change, None where it has no later batch; and why there is none. Pure."""
    numbers = list_numbers(facts.listed)
    newest = max(numbers.values())
    if newest < batch:
        return None, (
            f"{facts.uri} has batches up to {newest} only, and the checkpoint says that batch "
            f"{batch} is done: rows of batches {newest + 1} to {batch} would be missing. Go back "
            f"to batch {newest}, or to one before."
        )
    kept = [numbers[name] for name in _kept(facts.listed, batch)]
    first = min(kept, default=0)
    compacted = any(name.endswith(COMPACT) for name in _kept(facts.listed, batch))
    missing = missing_ranges(kept, first if compacted else 0, batch)
    if missing:
        lost = shown(map(str, numbers_of(missing, 5)))
        return None, (
            f"{facts.uri} has no files any more from which it could go on after batch {batch}: "
            f"those of batches {lost} are gone, the engine has removed them. The rows of older "
            "batches could not be read any more."
        )
    if facts.broken:
        return None, (
            f"{facts.uri} cannot be read where it goes on after batch {batch}: "
            f"{shown(facts.broken)} is cut, empty, or of a format that is not known here. Readers "
            "would stop at it. Restore it from a backup, or go back to a batch before."
        )
    if not facts.removed:
        return None, None
    return SinkLogChange(facts.uri, facts.listed, facts.removed), None


@commit_point(
    "sink log taken back",
    after_a_kill="before and in between: the log names batches that are to run again, and no "
    "query starts; after: it names the earlier ones; a repetition removes what is left",
)
def take_back_sink_log(change: SinkLogChange, log: FilePlace) -> None:
    """Remove the files of later batches; one that is gone already is no error."""
    log.remove_files([log.below(name) for name in change.removed])


@commit_point(
    "sink log brought back",
    after_a_kill="before and in between: a part of the log, and no query starts; after: the log "
    "is as in the backup; a repetition copies all again",
)
def bring_back_sink_log(change: SinkLogChange, log: FilePlace, backup: FilePlace) -> None:
    """Make the log what it is in the backup."""
    log.remove_files([log.below(name) for name in named_files(log) if name not in change.listed])
    copy_files(backup.folder(SINK_LOG), log, change.listed)


def _kept(listed: Mapping[str, int], batch: int) -> list[str]:
    """The files that readers take up to a batch: the newest compacted one, and all after it."""
    there = {name: number for name, number in list_numbers(listed).items() if number <= batch}
    compacted = [number for name, number in there.items() if name.endswith(COMPACT)]
    newest = max(compacted, default=-1)
    return [
        name
        for name, number in there.items()
        if number > newest or (number == newest and name.endswith(COMPACT))
    ]


def _paths(log: FilePlace, names: Iterable[str]) -> tuple[dict[str, None], tuple[str, ...]]:
    """The data files that files of the log name, and those of the log that cannot be read."""
    paths: dict[str, None] = {}
    unread = []
    for name in names:
        try:
            paths |= dict.fromkeys(_added(log, name))
        except (NotTheFormat, UnknownFormat):
            unread.append(name)
    return paths, tuple(unread)


def _added(log: FilePlace, name: str) -> list[str]:
    _, lines = versioned_lines(log.read(name), newest=1)
    with in_format(name):
        return [str(json_value(line)["path"]) for line in lines if line.strip()]
