"""Which files of a checkpoint are of batches after one: pure, by their names.

To go on after batch N the engine reads `offsets/N` and `offsets/N-1`, `commits/N`, version N+1 of
the state and the sources' lists up to what `offsets/N` says (MicroBatchExecution.populateStart-
Offsets). All that is newer has to go: a newer list is taken for one of a batch that is done, and a
newer snapshot of the state is loaded in silence once the query's own versions come to its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidemark.checkpoint.reading.checksums import after_checksums
from tidemark.checkpoint.reading.layout import Layout
from tidemark.checkpoint.reading.log_formats import CommitEntry, OffsetEntry
from tidemark.checkpoint.reading.source_offsets import FileOffset, source_offset
from tidemark.storage.json_text import number_of

COMPACT = ".compact"
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
        and after.watermark_ms == left
        and (after.batch_time_ms or 0) >= (at.batch_time_ms or 0)
    )


def folders_without_source(layout: Layout, at: OffsetEntry) -> tuple[str, ...]:
    """Folders of lists that no source of the offsets can be told for."""
    return tuple(
        name for name in layout.source_lists if name not in at.sources and _lists(layout, name)
    )


def files_beyond(layout: Layout, point: Point) -> tuple[str, ...]:
    """What goes, each after its checksums; the logs last, and of these the newest first."""
    names = [
        *_state(layout, point.batch),
        *_sources(layout, point.lists),
        *_log(layout, "commits", point.batch),
        *_log(layout, "offsets", point.batch + (1 if point.next_planned else 0)),
    ]
    return tuple(after_checksums(names, layout.checksums))


def lists_beyond(layout: Layout, point: Point) -> dict[str, tuple[str, ...]]:
    """By folder in `sources`, the lists that go, from the oldest on."""
    return {
        name: tuple(
            sorted(
                (file for file, number in _lists(layout, name).items() if number > newest),
                key=_number,
            )
        )
        for name, newest in point.lists.items()
    }


def _newest_lists(layout: Layout, at: OffsetEntry) -> Iterator[tuple[str, int]]:
    for name in layout.source_lists:
        text = at.sources.get(name)
        offset = None if text is None else source_offset(text)
        if isinstance(offset, FileOffset):
            yield name, offset.log_offset
        elif name in at.sources and text is None and len(_lists(layout, name)) > 1:
            # It had no offset yet; a source of another kind has only `0`.
            yield name, -1


def _lists(layout: Layout, folder: str) -> dict[str, int]:
    files = layout.source_lists.get(folder, {})
    numbers = {name: number_of(name.removesuffix(COMPACT)) for name in files}
    return {name: number for name, number in numbers.items() if number is not None}


def _sources(layout: Layout, lists: Mapping[str, int]) -> Iterator[str]:
    for folder, newest in lists.items():
        found = [name for name, number in _lists(layout, folder).items() if number > newest]
        yield from (f"sources/{folder}/{name}" for name in sorted(found, key=_number, reverse=True))


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


def _number(name: str) -> int:
    return int(name.removesuffix(COMPACT))
