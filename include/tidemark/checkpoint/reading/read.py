"""Read a checkpoint: one listing of its folder, and then only what is needed to judge it.

Of each log the newest files are read, of a file source's lists the newest, of the state what the
next start loads; everything else is told by names and sizes. So a checkpoint of 100,000 files is
read in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tidemark.checkpoint.reading.facts import CheckpointFacts, Log, Unreadable
from tidemark.checkpoint.reading.layout import Layout, sort_files
from tidemark.checkpoint.reading.log_formats import parse_commit, parse_metadata, parse_offsets
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.read_sources import read_sources
from tidemark.checkpoint.reading.read_state import is_lz4, read_operators
from tidemark.checkpoint.reading.reader import CheckpointReader
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts

E = TypeVar("E")


@dataclass(frozen=True)
class Limits:
    """How much of a checkpoint is read: the newest files of each log, the listed files that are
    looked for in the source's store, and the files of state that are opened."""

    log_files: int = 10
    listed_files: int = 200
    state_files: int = 1_000


def read_checkpoint(
    place: FilePlace,
    limits: Limits | None = None,
    on_listed: Callable[[int], None] = lambda files: None,
) -> CheckpointFacts:
    """Read the checkpoint in a folder, whoever wrote it.

    A query may work on it meanwhile: a file that goes between listing and reading is noted as
    unreadable. `on_listed` is told the number of files as soon as it is known. NotACheckpoint
    where the place is none, StorageUnavailable where it cannot be listed.
    """
    files = checkpoint_files(place)
    on_listed(len(files))
    return read_files(CheckpointReader(place, files), sort_files(files), limits or Limits())


def read_files(reader: CheckpointReader, layout: Layout, limits: Limits) -> CheckpointFacts:
    """Read a checkpoint that was listed already; `layout` is what the listing says of its files."""
    offsets = _log(reader, "offsets", layout.logs["offsets"], parse_offsets, limits.log_files)
    commits = _log(reader, "commits", layout.logs["commits"], parse_commit, limits.log_files)
    newest = next((e for b in reversed(offsets.batches) if (e := offsets.entry(b))), None)
    facts = CheckpointFacts(
        reader.place.uri,
        None if layout.metadata is None else reader.read("metadata", parse_metadata),
        offsets,
        commits,
        (),
        (),
        layout.sections,
        layout.leftovers,
        layout.unknown,
    )
    sources = read_sources(reader, newest, layout.source_lists, limits.listed_files)
    operators = read_operators(
        reader,
        layout,
        facts.version_needed,
        commits.entry(facts.version_needed - 1),
        limits.state_files,
        is_lz4(facts.conf),
    )
    return replace(
        facts,
        sources=sources,
        operators=operators,
        wrong_checksums=tuple(dict.fromkeys(reader.wrong_checksums)),
    )


def _log(
    reader: CheckpointReader,
    name: str,
    files: Mapping[int, FileFacts],
    parse: Callable[[int, bytes], E],
    newest: int,
) -> Log[E]:
    batches = tuple(sorted(files))
    read: dict[int, E | Unreadable] = {
        batch: reader.read(f"{name}/{batch}", partial(parse, batch)) for batch in batches[-newest:]
    }
    empty = tuple(batch for batch in batches[:-newest] if files[batch].size == 0)
    return Log(name, batches, read, empty)
