"""File sources: are the lists of their files there, and the files that the newest ones name?

FileStreamSource knows every file that it took by path, for good: what a list in `sources/M` names
is never read again, also where it changed. A start reads the newest compacted list and all lists
after it (CompactibleFileStreamLog.allFiles); a batch that runs again reads its files again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.checkpoint.doctor.findings import (
    Finding,
    FindingKind,
    Severity,
    examples,
    numbered,
    shown,
    spans,
)
from tidemark.checkpoint.reading.facts import CheckpointFacts, CheckpointSource, SourceList
from tidemark.checkpoint.reading.log_formats import ListedFile
from tidemark.checkpoint.reading.missing import missing_ranges
from tidemark.checkpoint.reading.source_offsets import FileOffset, source_offset
from tidemark.pipeline.instants import epoch_ms

_RESTORE = "Restore the files from a backup, or the whole checkpoint together with its tables."

_WITHOUT_LISTS = "It stops: the batch, or the list's file, `doesn't exist`, or `assertion failed`."
# FileStreamSource counts on from the newest list that it finds.
_WITHOUT_NEWEST = (
    "It goes on in silence: it writes these lists anew, with files that are new by then, and takes "
    "them for the lists of batches that are done. A batch that runs again stops: the batch "
    "`doesn't exist`."
)
_TAKEN_AGAIN = (
    "With a list lost, the engine does not know that it took its files, and takes them again."
)


def source_findings(facts: CheckpointFacts, repeats: bool) -> Iterator[Finding]:
    """What is wrong with the sources' folders. `repeats`: the next start runs a batch again."""
    for source in facts.sources:
        if isinstance(source.offset, FileOffset):
            yield from _lists(source, source.offset)
        if source.file_list is not None:
            yield from _unreadable(source, source.file_list)
            yield from _listed_files(facts, source, source.file_list, repeats)


def _lists(source: CheckpointSource, offset: FileOffset) -> Iterator[Finding]:
    lists = source.file_list
    if lists is None and not source.id.isdecimal():
        # A source that was given a name: which folder is its own is not known then.
        return
    have = set(lists.lists) | set(lists.compacted) if lists else set()
    newest = max([offset.log_offset, *have], default=-1)
    first = lists.first_needed if lists else 0
    missing = missing_ranges(have, first, newest)
    if missing:
        in_silence = have and max(have) < newest
        yield Finding(
            FindingKind.SOURCE_LIST,
            Severity.DAMAGE,
            f"Lists of the files of source {source.id} are missing: {spans(missing)}. A start "
            f"needs {first} to {newest}.",
            _WITHOUT_NEWEST if in_silence else _WITHOUT_LISTS,
            "Rows of the files that are new at the next start: they are in no batch."
            if in_silence
            else _TAKEN_AGAIN,
            _RESTORE,
            *numbered(f"sources/{source.id}/{{}}", missing),
        )


def _unreadable(source: CheckpointSource, lists: SourceList) -> Iterator[Finding]:
    first = lists.first_needed
    for found in lists.unreadable:
        number = int(found.name.rpartition("/")[2].removesuffix(".compact"))
        damage = Severity.UNKNOWN if found.undecided else Severity.DAMAGE
        yield Finding(
            FindingKind.SOURCE_LIST,
            damage if number >= first else Severity.WARNING,
            f"{found.summary}.",
            "It reads the newest compacted list and all after it at a start, and stops at this one."
            if number >= first
            else "It does not read this list at a start.",
            _TAKEN_AGAIN,
            _RESTORE,
            *examples([found.name]),
        )


def _listed_files(
    facts: CheckpointFacts, source: CheckpointSource, lists: SourceList, repeats: bool
) -> Iterator[Finding]:
    if lists.not_checked:
        yield Finding(
            FindingKind.SOURCE_FILES,
            Severity.NOTE,
            f"The files that source {source.id} lists could not be looked for: {lists.not_checked}",
            "It looks for them when a batch reads them.",
            "None is known.",
            "Give the storage options of the source's store, if it should be looked at.",
        )
    again = _of_repeated_batch(facts, source) if repeats else range(0)
    gone = [one for one, found in lists.newest_files.items() if found is None]
    changed = [
        one
        for one, found in lists.newest_files.items()
        if found is not None and epoch_ms(found.modified) != one.modified_ms
    ]
    looked_at = len(lists.newest_files)
    yield from _gone(source, [one for one in gone if one.batch in again], True, looked_at)
    yield from _gone(source, [one for one in gone if one.batch not in again], False, looked_at)
    if changed:
        yield Finding(
            FindingKind.SOURCE_FILES,
            Severity.WARNING,
            f"Of the newest {looked_at} files that source {source.id} took, {len(changed)} have "
            f"changed since: {shown(one.uri for one in changed)}.",
            "It knows a file by its path and does not read it again; a batch that runs again "
            "reads it as it is now.",
            "What was added to these files, or changed in them, is in no batch.",
            "Land files under new names, whole. To have these read, copy them to new names and "
            "mind the rows that were read before.",
            *examples(one.uri for one in changed),
        )


def _gone(
    source: CheckpointSource, gone: list[ListedFile], needed: bool, looked_at: int
) -> Iterator[Finding]:
    if not gone:
        return
    yield Finding(
        FindingKind.SOURCE_FILES,
        Severity.DAMAGE if needed else Severity.NOTE,
        f"Of the newest {looked_at} files that source {source.id} took, {len(gone)} are gone"
        f"{', which the batch that runs again reads' if needed else ''}: "
        f"{shown(one.uri for one in gone)}.",
        "The batch runs without them: it warns in its log, and stops only where a file goes while "
        "it is read."
        if needed
        else "It does not look for them: their batches are done.",
        "The rows of these files, as far as no sink has them."
        if needed
        else "None for the next start; batches with these files cannot run again after a rewind.",
        "Bring the files back to the same paths."
        if needed
        else "Nothing has to be done where they were removed or archived on purpose.",
        *examples(one.uri for one in gone),
    )


def _of_repeated_batch(facts: CheckpointFacts, source: CheckpointSource) -> range:
    """The numbers of the lists that the planned batch reads."""
    if not isinstance(source.offset, FileOffset):
        return range(0)
    before = facts.offsets.entry((facts.offsets.newest or 0) - 1)
    text = before.sources.get(source.id) if before else None
    start = source_offset(text) if text else None
    first = start.log_offset + 1 if isinstance(start, FileOffset) else 0
    return range(first, source.offset.log_offset + 1)
