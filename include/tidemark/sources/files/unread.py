"""The files of a source that its ingest has not read, as the engine's file source finds them.

That source keeps the URI of each file that it took, for ever, and takes a file whose URI it has not
(class FileStreamSource, with a `maxFileAge` beyond all times): a file that changed since is not
read again. A file may be told unread here that the engine passes over (`pattern.py`), but never the
other way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import StorageUnavailable
from tidemark.pipeline.settings.storage_options import is_local, local_path
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.pattern import FilePattern, file_pattern
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, Options, stat_files

# How the engine ends the name of a list that holds those before it too.
COMPACT = ".compact"


def unread_files(source: SourceFiles, ingest: Checkpoint) -> list[str]:
    """The places of files that the ingest's next batches would read, or may read: those too that
    are planned and not committed, also where they are gone.

    `source.folder` is a place. Raises StorageUnavailable and CheckpointUnreadable where that
    cannot be told, ValueError for a pattern that cannot be read.
    """
    read, due = _files_in_log(ingest)
    there = [place for place in source_files(source, ingest.options) if place not in read]
    return [*there, *sorted(due.difference(there))]


def facts_of_files(
    source: SourceFiles, places: Sequence[str], options: Options
) -> dict[str, FileFacts]:
    """Size and time of those of these places of files of a source that are there."""
    if is_local(source.folder):
        found: Mapping[str, FileFacts | None] = stat_files(places, options)
    else:
        listed = FilePlace(file_pattern(source).folder, options).files()
        found = {same_place(uri): facts for uri, facts in listed.items()}
    return {place: facts for place in places if (facts := found.get(place))}


def source_files(source: SourceFiles, options: Mapping[str, str]) -> list[str]:
    """The places of all files of a source, in no order; of a store, as its keys are, not encoded.

    Errors as those of `unread_files`.
    """
    pattern, found = _found(source, options)
    further = any(pattern.names_a_partition(names) for _, names in found)
    return [place for place, names in found if further or not pattern.is_further_down(names)]


def files_to_take(source: SourceFiles, options: Mapping[str, str]) -> list[str]:
    """Those of `source_files` that the engine takes whatever else is there."""
    pattern, found = _found(source, options)
    return [place for place, names in found if not pattern.is_further_down(names)]


def _found(
    source: SourceFiles, options: Mapping[str, str]
) -> tuple[FilePattern, list[tuple[str, list[str]]]]:
    """All that may be taken: its place, and its names below the pattern's folder."""
    pattern = file_pattern(source)
    local = is_local(pattern.folder)
    return pattern, list(_local_files(pattern) if local else _files(pattern, options))


def log_lists(ingest: Checkpoint) -> list[str]:
    """The names of the lists that the source's log is read from: the newest compacted one, and
    those since. A run that was killed has listed files that no batch is planned of."""
    last = ingest.last_batch("offsets")
    end = -1 if last is None else ingest.log_offset(last)
    plain, compacted = ingest.batches("sources/0"), ingest.batches("sources/0", COMPACT)
    first = max(compacted, default=-1)
    since = [str(number) for number in range(first + 1, max(end, *plain, first) + 1)]
    return [f"{first}{COMPACT}", *since] if compacted else since


def _files_in_log(ingest: Checkpoint) -> tuple[frozenset[str], frozenset[str]]:
    """The files of the source's log, of committed batches and of others."""
    last = ingest.last_batch("commits")
    end = -1 if last is None else ingest.log_offset(last)
    files = [file for name in log_lists(ingest) for file in ingest.listed_files(name)]
    read = frozenset(same_place(file.uri) for file in files if file.batch <= end)
    return read, frozenset(same_place(file.uri) for file in files if file.batch > end)


def _files(pattern: FilePattern, options: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for uri in FilePlace(pattern.folder, options).files():
        place, folder = same_place(uri), same_place(pattern.folder)
        names = place.removeprefix(folder).strip("/").split("/")
        if pattern.takes(names):
            yield place, names


def _local_files(pattern: FilePattern) -> Iterator[tuple[str, list[str]]]:
    """By the file system itself: obstore leaves out names that it uses for its own writes."""
    folder = os.path.normpath(local_path(pattern.folder))
    try:
        yield from _below(folder, [], pattern)
    except OSError as error:
        raise StorageUnavailable(f"{folder} could not be listed: {error}") from error


def _below(folder: str, parts: list[str], pattern: FilePattern) -> Iterator[tuple[str, list[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            names = [*parts, entry.name]
            if entry.is_dir():
                if pattern.enters(names):
                    yield from _below(entry.path, names, pattern)
            elif pattern.takes(names) and not _leads_nowhere(entry):
                yield entry.path, names


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not Path(entry.path).exists()


def same_place(uri: str) -> str:
    """A place as text that is the same whoever wrote the URI."""
    return local_path(uri) if is_local(uri) else re.sub("^s3a:", "s3:", unquote(uri))
