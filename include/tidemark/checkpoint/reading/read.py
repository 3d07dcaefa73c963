"""Read a checkpoint: one listing of its folder, and then only what is needed to judge it.

Of each log the newest files are read, of a file source's lists the newest, of the state what the
next start loads; everything else is told by names and sizes. So a checkpoint of 100,000 files is
read in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tidemark.checkpoint.reading.facts import (
    CheckpointFacts,
    CheckpointSource,
    Log,
    SourceList,
    Unreadable,
)
from tidemark.checkpoint.reading.layout import Layout, sort_files
from tidemark.checkpoint.reading.log_formats import (
    COMPACT,
    ListedFile,
    OffsetEntry,
    parse_commit,
    parse_listed_files,
    parse_metadata,
    parse_offsets,
)
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.read_state import is_lz4, read_operators
from tidemark.checkpoint.reading.reader import CheckpointReader
from tidemark.checkpoint.reading.source_offsets import (
    CountOffset,
    DeltaOffset,
    FileOffset,
    KafkaOffset,
    PlannedTopics,
    PlannedVersions,
    RateOffset,
    SourceOffset,
    source_offset,
)
from tidemark.errors import StorageUnavailable
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, stat_files
from tidemark.storage.json_text import number_of

E = TypeVar("E")


@dataclass(frozen=True)
class Limits:
    """How much of a checkpoint is read: the newest files of each log, the listed files that are
    told, and looked for in the source's store if `in_store`, and the files of state that are
    opened."""

    log_files: int = 10
    listed_files: int = 200
    state_files: int = 1_000
    in_store: bool = True


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
    sources = read_sources(reader, newest, layout.source_lists, limits)
    operators = read_operators(
        reader,
        layout,
        facts.version_needed,
        commits.entry(facts.version_needed - 1),
        limits.state_files,
        is_lz4(facts.conf),
        facts.partitions,
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


_KINDS: Mapping[type, str] = {
    FileOffset: "file",
    DeltaOffset: "Delta",
    KafkaOffset: "Kafka",
    PlannedTopics: "Kafka, planned by Tidemark",
    PlannedVersions: "Delta, planned by Tidemark",
    RateOffset: "rate",
    CountOffset: "rate",
}
_SHOWN = 200
# A compacted list names every file that the source ever took, in about 150 bytes each.
_LARGEST_LIST = 64 << 20


def read_sources(
    reader: CheckpointReader,
    newest: OffsetEntry | None,
    folders: Mapping[str, Mapping[str, FileFacts]],
    limits: Limits,
) -> tuple[CheckpointSource, ...]:
    """The sources that the newest offsets name, and those that have a folder only.

    Of each file list at most `limits.listed_files`, the newest, are looked for in their store.
    """
    texts = dict(newest.sources) if newest else {}
    names = [*texts, *(name for name in sorted(folders) if name not in texts)]
    providers = newest.providers if newest else {}
    return tuple(
        _source(reader, name, texts.get(name), providers, folders.get(name, {}), limits)
        for name in names
    )


def _source(
    reader: CheckpointReader,
    name: str,
    text: str | None,
    providers: Mapping[str, str],
    files: Mapping[str, FileFacts],
    limits: Limits,
) -> CheckpointSource:
    offset = None if text is None else source_offset(text)
    initial = None if isinstance(offset, FileOffset) else _initial(reader, name, files)
    kind = providers.get(name) or _kind(offset, initial)
    lists_files = isinstance(offset, FileOffset) or (offset is None and initial is None)
    file_list = _file_list(reader, name, files, limits) if lists_files and files else None
    return CheckpointSource(name, kind, offset, file_list, initial)


def _kind(offset: SourceOffset | None, initial: str | None) -> str:
    # The rate source writes down when it began; socket and memory sources write nothing.
    if isinstance(offset, CountOffset) and initial is None:
        return "rate, socket or memory"
    return _KINDS.get(type(offset), "unknown")


def _initial(reader: CheckpointReader, name: str, files: Mapping[str, FileFacts]) -> str | None:
    """What a source that lists no files wrote when it began; None where it wrote nothing.

    KafkaSourceInitialOffsetWriter puts a zero byte first, for Spark 2.1.0 (SPARK-19517).
    """
    if set(files) != {"0"}:
        return None
    data = reader.data(f"sources/{name}/0")
    if isinstance(data, Unreadable):
        return None
    text = data.decode(errors="replace").lstrip("\0")
    version, _, rest = text.partition("\n")
    if version.startswith("v"):
        return None if '"path"' in rest else rest[:_SHOWN]
    return text[:_SHOWN]


def _file_list(
    reader: CheckpointReader, name: str, files: Mapping[str, FileFacts], limits: Limits
) -> SourceList:
    plain = _numbers(files)
    compacted = _numbers(file.removesuffix(COMPACT) for file in files if file.endswith(COMPACT))
    unreadable: list[Unreadable] = []
    newest: list[ListedFile] = []
    for number in sorted({*plain, *compacted}, reverse=True):
        own = str(number) if number in plain else f"{number}{COMPACT}"
        if len(newest) >= limits.listed_files or files[own].size > _LARGEST_LIST:
            break
        entries = reader.read(f"sources/{name}/{own}", parse_listed_files)
        if isinstance(entries, Unreadable):
            unreadable.append(entries)
            continue
        newest += _unseen(entries, newest)
    looked_for = newest[: limits.listed_files] if limits.in_store else []
    facts, not_checked = _stat(looked_for, reader.place)
    size = sum(file.size for file in files.values())
    return SourceList(tuple(plain), tuple(compacted), size, facts, not_checked, tuple(unreadable))


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted(number for name in names if (number := number_of(name)) is not None)


def _unseen(entries: Sequence[ListedFile], seen: Sequence[ListedFile]) -> list[ListedFile]:
    """The newest first; a compacted list repeats what the lists before it name."""
    known = set(seen)
    return sorted((one for one in entries if one not in known), key=lambda one: -one.batch)


def _stat(
    listed: Sequence[ListedFile], checkpoint: FilePlace
) -> tuple[dict[ListedFile, FileFacts | None], str | None]:
    try:
        found = stat_files([one.uri for one in listed], checkpoint.options)
    except StorageUnavailable as error:
        return {}, str(error)
    return {one: found[one.uri] for one in listed}, None
