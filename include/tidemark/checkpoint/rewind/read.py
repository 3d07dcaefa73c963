"""What a rewind to a batch is planned from: one listing, and what a start would then find.

The second is read as `checkpoint doctor` reads a checkpoint, with the files left out that would go;
so the doctor's judgement of it is that of the checkpoint afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from tidemark.checkpoint.reading.checksums import after_checksums
from tidemark.checkpoint.reading.facts import CheckpointFacts, Unreadable
from tidemark.checkpoint.reading.layout import Layout, possible_batches, sort_files
from tidemark.checkpoint.reading.log_formats import (
    CommitEntry,
    ListedFile,
    OffsetEntry,
    list_numbers,
    parse_commit,
    parse_listed_files,
    parse_offsets,
    repartitions,
)
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.read import Limits, read_files
from tidemark.checkpoint.reading.reader import CheckpointReader
from tidemark.checkpoint.reading.source_offsets import FileOffset, source_offset
from tidemark.checkpoint.rewind.stop_mark import stop_mark
from tidemark.errors import RewindRefused, StorageUnavailable
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import FileFacts, stat_files
from tidemark.storage.json_text import number_of


@dataclass(frozen=True)
class CheckpointSnapshot:
    """A checkpoint as it was listed, and what a start finds of it now."""

    place: FilePlace
    files: Mapping[str, FileFacts]
    layout: Layout
    facts: CheckpointFacts

    def without(self, names: Sequence[str]) -> CheckpointSnapshot:
        """The checkpoint as it would be listed without these files."""
        gone = frozenset(names)
        return listed(self.place, {n: f for n, f in self.files.items() if n not in gone})

    def entry(self, batch: int) -> OffsetEntry | Unreadable | None:
        """The offsets of any batch; None where there is no file."""
        if batch not in self.layout.logs["offsets"]:
            return None
        return self._reader.read(f"offsets/{batch}", partial(parse_offsets, batch))

    def commit(self, batch: int) -> CommitEntry | Unreadable | None:
        """The commit of any batch; None where there is no file."""
        if batch not in self.layout.logs["commits"]:
            return None
        return self._reader.read(f"commits/{batch}", partial(parse_commit, batch))

    @property
    def _reader(self) -> CheckpointReader:
        return CheckpointReader(self.place, self.files)


@dataclass(frozen=True)
class ReadAgain:
    """The files of a file source that batches read again, and those of them that are gone or have
    changed since they were listed. `not_known`: lists that cannot be read; `not_checked`: why the
    store of the files was not asked."""

    uris: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    not_checked: str | None = None

    @property
    def files(self) -> int:
        return len(self.uris)

    def without(self, uris: Collection[str]) -> ReadAgain:
        """What is left where these are not read again."""
        uris_left, gone, changed = (
            tuple(uri for uri in found if uri not in uris)
            for found in (self.uris, self.gone, self.changed)
        )
        return replace(self, uris=uris_left, gone=gone, changed=changed)


@dataclass(frozen=True)
class RewindFacts:
    """A checkpoint now and as it would be at `point`; `going` are the files in between."""

    before: CheckpointSnapshot
    point: Point
    going: tuple[str, ...]
    after: CheckpointSnapshot
    read_again: ReadAgain = field(default_factory=ReadAgain)
    unclear_folders: tuple[str, ...] = ()


def list_checkpoint(place: FilePlace) -> CheckpointSnapshot:
    """The checkpoint at a place. RewindRefused where a rewind of it was not finished,
    NotACheckpoint and StorageUnavailable as `read_checkpoint` raises them."""
    files = checkpoint_files(place)
    mark = stop_mark(place, files)
    if mark is not None:
        raise RewindRefused(
            f"A rewind, a repair or a restore of {place.uri} was begun and not finished; its "
            f"backup is {mark.backup}. Finish it: give the same command with --apply. Or bring "
            f"back what was: `tidemark checkpoint restore {mark.backup}` says how."
        )
    if (folder := place.led_out(files)) is not None:
        raise RewindRefused(
            f"{place.below(folder)} is a link to a place out of {place.uri}: what is there is not "
            "changed. Give the checkpoint with its folders in it. Nothing was changed."
        )
    return listed(place, files)


def listed(place: FilePlace, files: Mapping[str, FileFacts]) -> CheckpointSnapshot:
    """Read what a start would find, were only these files there."""
    layout = sort_files(files)
    return CheckpointSnapshot(
        place, files, layout, read_files(CheckpointReader(place, files), layout, Limits())
    )


def read_for_rewind(now: CheckpointSnapshot, batch: int) -> RewindFacts:
    """RewindRefused where the offsets or the commit of the batch are not there, or not whole."""
    at, commit, after = now.entry(batch), now.commit(batch), now.entry(batch + 1)
    if not isinstance(at, OffsetEntry):
        raise _not_kept(now, batch, at.summary if at else f"offsets/{batch} is not there")
    if not isinstance(commit, CommitEntry):
        raise _not_kept(now, batch, commit.summary if commit else f"commits/{batch} is not there")
    planned = after if isinstance(after, OffsetEntry) else None
    point = point_of(now.layout, at, commit, planned)
    going = files_beyond(now.layout, point)
    return RewindFacts(
        now,
        point,
        going,
        now.without(going),
        _read_again(now, point),
        folders_without_source(now.layout, at),
    )


def youngest(files: Mapping[str, FileFacts]) -> datetime | None:
    """When the newest file of a checkpoint was written, by its store's clock."""
    return max((one.modified for one in files.values()), default=None)


def _not_kept(now: CheckpointSnapshot, batch: int, why: str) -> RewindRefused:
    possible = possible_batches(now.layout)
    there = f"{possible[0]} to {possible[-1]}" if possible else "none"
    return RewindRefused(
        f"{now.place.uri} cannot go back to batch {batch}: {why}. Batches with offsets and commit: "
        f"{there}. Nothing was changed."
    )


def _read_again(now: CheckpointSnapshot, point: Point) -> ReadAgain:
    taken: dict[ListedFile, None] = {}
    not_known = []
    reader = CheckpointReader(now.place, now.files)
    for folder, newest in point.lists.items():
        for name in _lists_beyond(now.layout, folder, newest):
            entries = reader.read(f"sources/{folder}/{name}", parse_listed_files)
            if isinstance(entries, Unreadable):
                not_known.append(entries.name)
                continue
            # A compacted list repeats what stays.
            newer = (one for one in entries if one.batch > newest)
            taken |= dict.fromkeys(newer)
    uris = tuple(one.uri for one in taken)
    try:
        found = stat_files(uris, now.place.options)
    except StorageUnavailable as error:
        return ReadAgain(uris, (), (), tuple(not_known), str(error))
    changed = []
    for one in taken:
        facts = found[one.uri]
        if facts is not None and epoch_ms(facts.modified) != one.modified_ms:
            changed.append(one.uri)
    gone = tuple(uri for uri in uris if found[uri] is None)
    return ReadAgain(uris, gone, tuple(changed), tuple(not_known))


_OPERATOR_BY_BATCH = "_metadata/v2/"


@dataclass(frozen=True)
class Point:
    """The end of a batch. `lists`: by folder in `sources`, the newest list that stays; sources
    whose folders are none of lists are not named.

    `next_planned`: the batch after it had no data of its own and only applied its watermark. It
    stays planned and runs again as it was, so that rows which were late are late again.
    """

    batch: int
    lists: Mapping[str, int]
    next_planned: bool = False


def point_of(
    layout: Layout, at: OffsetEntry, commit: CommitEntry, after: OffsetEntry | None
) -> Point:
    """Where a checkpoint goes back to: the end of the batch of `at` and `commit`. `after`: the
    offsets of the next batch, where they can be read."""
    lists = dict(_newest_lists(layout, at))
    return Point(at.batch, lists, after is not None and _only_applies(after, at, commit))


def _only_applies(after: OffsetEntry, at: OffsetEntry, commit: CommitEntry) -> bool:
    """Did a batch follow that read nothing, and ran by the watermark that was left to it?"""
    left = max(at.watermark_ms or 0, commit.next_watermark_ms)
    return (
        dict(after.sources) == dict(at.sources)
        and not repartitions(at, after)
        and after.watermark_ms == left
        and (after.batch_time_ms or 0) >= (at.batch_time_ms or 0)
    )


def folders_without_source(layout: Layout, at: OffsetEntry) -> tuple[str, ...]:
    """Folders of lists that no source of the offsets can be told for."""
    return tuple(
        name
        for name, lists in layout.source_lists.items()
        if name not in at.sources and list_numbers(lists)
    )


def files_beyond(layout: Layout, point: Point) -> tuple[str, ...]:
    """What goes, each after its checksums; the logs last, and of these the newest first. Pure, by
    their names.

    To go on after batch N the engine reads `offsets/N` and `offsets/N-1`, `commits/N`, version N+1
    of the state and the sources' lists up to what `offsets/N` says (MicroBatchExecution.populate-
    StartOffsets). All that is newer has to go: a newer list is taken for one of a batch that is
    done, and a newer snapshot of the state is loaded in silence once the query's own versions come
    to its number.
    """
    names = [
        *_state(layout, point.batch),
        *(
            f"sources/{folder}/{name}"
            for folder, newest in point.lists.items()
            for name in _lists_beyond(layout, folder, newest, newest_first=True)
        ),
        *_log(layout, "commits", point.batch),
        *_log(layout, "offsets", point.batch + (1 if point.next_planned else 0)),
    ]
    return tuple(after_checksums(names, layout.checksums))


def _newest_lists(layout: Layout, at: OffsetEntry) -> Iterator[tuple[str, int]]:
    for name, lists in layout.source_lists.items():
        text = at.sources.get(name)
        offset = None if text is None else source_offset(text)
        if isinstance(offset, FileOffset):
            yield name, offset.log_offset
        elif name in at.sources and text is None and len(list_numbers(lists)) > 1:
            # It had no offset yet; a source of another kind has only `0`.
            yield name, -1


def _lists_beyond(
    layout: Layout, folder: str, newest: int, newest_first: bool = False
) -> list[str]:
    """The lists in a folder of `sources` that go."""
    numbers = list_numbers(layout.source_lists.get(folder, {}))
    beyond = [name for name, number in numbers.items() if number > newest]
    return sorted(beyond, key=numbers.__getitem__, reverse=newest_first)


def _log(layout: Layout, log: str, newest: int) -> Iterator[str]:
    return (f"{log}/{batch}" for batch in sorted(layout.logs[log], reverse=True) if batch > newest)


def _state(layout: Layout, batch: int) -> Iterator[str]:
    for store in layout.stores.values():
        for version in sorted(store.files, reverse=True):
            if version > batch + 1:
                yield from (f"{store.id.folder}/{file.name}" for file in store.files[version])
    for operator, files in layout.operator_files.items():
        for name in files:
            written_by = name.removeprefix(_OPERATOR_BY_BATCH)
            if name != written_by and (number_of(written_by) or 0) > batch:
                yield f"state/{operator}/{name}"
