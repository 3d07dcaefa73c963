"""Decide what to read of a batch's files: pure, from what the listing and the store say.

A source file should never change once it is listed. Where one did, or is gone, the batch goes
on without it and a reject says so; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemark.checkpoint.log import SourceFile
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.reasons import CHANGED_FILE, LEFT_OUT, MALFORMED, UNREADABLE
from tidemark.sources.notes import AcceptedLoss
from tidemark.sources.source import PartVerdict, Reading
from tidemark.storage.files import FileFacts

_LAND_AGAIN = "None of its rows were accepted. To have it read, land it under another name."


def first_reading(
    files: Sequence[SourceFile],
    facts: Mapping[str, FileFacts | None],
    left_out: Sequence[AcceptedLoss] = (),
) -> Reading:
    """Nothing of the batch is committed: every file is read as it is now, but those that were noted
    as left out."""
    labels = {one.part: f"{one.label}. {_LAND_AGAIN}" for one in left_out}
    verdicts = [
        verdict
        for file in files
        if (verdict := _first_verdict(file, facts[file.uri], labels.get(file.uri)))
    ]
    rejected = {verdict.part for verdict in verdicts}
    read = tuple(file.uri for file in files if file.uri not in rejected)
    seen = {
        file.uri: modified
        for file in files
        if (modified := _modified_ms(facts[file.uri])) not in (None, file.modified_ms)
    }
    return Reading(read, tuple(verdicts), seen)


def repeated_reading(
    files: Sequence[SourceFile],
    facts: Mapping[str, FileFacts | None],
    committed: Reading,
) -> Reading:
    """Bronze of the batch is committed: only the rejects of unchanged files can be judged.

    `committed` holds the verdicts and times that were committed with bronze.
    """
    earlier = {verdict.part: verdict for verdict in committed.verdicts}
    verdicts, read = [], []
    for file in files:
        expected = committed.seen.get(file.uri, file.modified_ms)
        if file.uri in earlier:
            verdicts.append(earlier[file.uri])
        elif change := _change(facts[file.uri], expected):
            verdicts.append(PartVerdict(file.uri, CHANGED_FILE, change))
        else:
            read.append(file.uri)
    return Reading(tuple(read), tuple(verdicts), committed.seen)


def leave_out(reading: Reading, unreadable: Sequence[PartVerdict]) -> Reading:
    """A reading without files that turned out not to be readable to their end."""
    bad = {verdict.part for verdict in unreadable}
    return Reading(
        read=tuple(uri for uri in reading.read if uri not in bad),
        verdicts=(*reading.verdicts, *unreadable),
        seen=reading.seen,
    )


def unreadable(uri: str, cause: str) -> PartVerdict:
    """The verdict on a file that could not be read to its end."""
    return PartVerdict(uri, UNREADABLE, f"{cause}. {_LAND_AGAIN}")


def no_longer_readable(verdict: PartVerdict) -> PartVerdict:
    """The verdict where bronze took the file's rows before it became unreadable."""
    return PartVerdict(verdict.part, CHANGED_FILE, _unknown("cannot be read any more"))


def _first_verdict(
    file: SourceFile, facts: FileFacts | None, left_out: str | None
) -> PartVerdict | None:
    if left_out is not None:
        return PartVerdict(file.uri, LEFT_OUT, left_out)
    if facts is None:
        return unreadable(file.uri, "It was gone between listing and reading")
    if facts.size == 0:
        return PartVerdict(file.uri, MALFORMED, "The file is empty (0 bytes)")
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
