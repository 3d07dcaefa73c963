"""Decide what to read of a batch's files: pure, from what the listing and the store say.

A source file should never change once it is listed. Where one did, or is gone, the batch goes
on without it and a reject says so; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.checkpoint.log import SourceFile
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.files import FileFacts

UNREADABLE = "unreadable file"
CHANGED = "changed file"
MALFORMED = "malformed"

_LAND_AGAIN = "None of its rows were accepted. To have it read, land it under another name."


@dataclass(frozen=True)
class FileVerdict:
    """A whole file that was rejected. `uri` is percent-encoded, as everywhere."""

    uri: str
    reason: str
    detail: str


@dataclass(frozen=True)
class BatchFiles:
    """The files of one batch: those to read, and verdicts on the others.

    `seen_ms` holds the modification time of each file that was another than in the listing
    when it was read; it is committed with bronze, so that a replay knows what bronze holds.
    """

    read: tuple[str, ...]
    verdicts: tuple[FileVerdict, ...]
    seen_ms: Mapping[str, int]

    def without(self, unreadable: Sequence[FileVerdict]) -> BatchFiles:
        """The same batch, with files that turned out not to be readable to their end."""
        bad = {verdict.uri for verdict in unreadable}
        return BatchFiles(
            read=tuple(uri for uri in self.read if uri not in bad),
            verdicts=(*self.verdicts, *unreadable),
            seen_ms=self.seen_ms,
        )


def first_reading(files: Sequence[SourceFile], facts: Mapping[str, FileFacts | None]) -> BatchFiles:
    """Nothing of the batch is committed: every file is read as it is now."""
    verdicts = [verdict for file in files if (verdict := _first_verdict(file, facts[file.uri]))]
    rejected = {verdict.uri for verdict in verdicts}
    read = tuple(file.uri for file in files if file.uri not in rejected)
    seen = {
        file.uri: modified
        for file in files
        if (modified := _modified_ms(facts[file.uri])) not in (None, file.modified_ms)
    }
    return BatchFiles(read, tuple(verdicts), seen)


def repeated_reading(
    files: Sequence[SourceFile],
    facts: Mapping[str, FileFacts | None],
    committed: BatchFiles,
) -> BatchFiles:
    """Bronze of the batch is committed: only the rejects of unchanged files can be judged.

    `committed` holds the verdicts and times that were committed with bronze.
    """
    earlier = {verdict.uri: verdict for verdict in committed.verdicts}
    verdicts, read = [], []
    for file in files:
        expected = committed.seen_ms.get(file.uri, file.modified_ms)
        if file.uri in earlier:
            verdicts.append(earlier[file.uri])
        elif change := _change(facts[file.uri], expected):
            verdicts.append(FileVerdict(file.uri, CHANGED, change))
        else:
            read.append(file.uri)
    return BatchFiles(tuple(read), tuple(verdicts), committed.seen_ms)


def unreadable(uri: str, cause: str) -> FileVerdict:
    """The verdict on a file that could not be read to its end."""
    return FileVerdict(uri, UNREADABLE, f"{cause}. {_LAND_AGAIN}")


def no_longer_readable(verdict: FileVerdict) -> FileVerdict:
    """The verdict where bronze took the file's rows before it became unreadable."""
    return FileVerdict(verdict.uri, CHANGED, _unknown("cannot be read any more"))


def _first_verdict(file: SourceFile, facts: FileFacts | None) -> FileVerdict | None:
    if facts is None:
        return unreadable(file.uri, "It was gone between listing and reading")
    if facts.size == 0:
        return FileVerdict(file.uri, MALFORMED, "The file is empty (0 bytes)")
    return None


def _change(facts: FileFacts | None, expected_ms: int) -> str | None:
    modified = _modified_ms(facts)
    if modified == expected_ms:
        return None
    return _unknown("is gone" if modified is None else "has changed")


def _unknown(state: str) -> str:
    return (
        f"The run was killed after this batch's accepted rows were committed, and the file "
        f"{state} since. Bronze keeps what it took from it (see _file and _batch there); which "
        f"of its lines were rejected is unknown"
    )


def _modified_ms(facts: FileFacts | None) -> int | None:
    return None if facts is None else epoch_ms(facts.modified)
