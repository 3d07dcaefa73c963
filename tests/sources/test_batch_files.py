from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.checkpoint.log import SourceFile
from tidemark.sources.files.batch_files import (
    first_reading,
    leave_out,
    repeated_reading,
    unreadable,
)
from tidemark.sources.notes import accepted_loss
from tidemark.sources.source import LossAcceptance, LostInput, PartVerdict, Reading
from tidemark.storage.files import FileFacts

LISTED_MS = 1_790_000_000_123
A, B, C, D = (f"file:///landing/{name}.json" for name in "abcd")
FILES = tuple(SourceFile(uri, LISTED_MS) for uri in (A, B, C, D))


def facts(size: int = 10, later_ms: float = 0) -> FileFacts:
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    return FileFacts(size, begin + timedelta(milliseconds=LISTED_MS + later_ms))


def test_a_first_reading_reads_every_file_as_it_is_now() -> None:
    found = first_reading(FILES[:2], {A: facts(), B: facts(later_ms=5_000)})
    assert found == Reading(read=(A, B), verdicts=(), seen={B: LISTED_MS + 5_000})


def test_a_first_reading_rejects_files_that_are_gone_or_empty() -> None:
    found = first_reading(FILES[:3], {A: None, B: facts(size=0), C: facts()})
    assert found.read == (C,)
    assert [(v.part, v.reason) for v in found.verdicts] == [
        (A, "unreadable file"),
        (B, "malformed"),
    ]
    assert "gone between listing and reading" in found.verdicts[0].detail
    assert "is empty" in found.verdicts[1].detail
    assert found.seen == {}


def test_a_file_that_is_left_out_is_not_read_whatever_it_holds_and_its_repeat_says_the_same() -> (
    None
):
    at = datetime(2026, 7, 1, tzinfo=UTC)
    noted = accepted_loss(LostInput(B, "left out", "Known"), LossAcceptance("why", "Ada", at))
    found = first_reading(FILES[:2], {A: facts(), B: None}, [noted])
    assert found.read == (A,)
    (verdict,) = found.verdicts
    assert (verdict.part, verdict.reason) == (B, "left out")
    assert verdict.detail.startswith("Known. Accepted by Ada: why. None of its rows were accepted.")
    assert repeated_reading(FILES[:2], {A: facts(), B: facts()}, found).verdicts == (verdict,)


def test_fractions_of_a_millisecond_are_no_change() -> None:
    # The engine lists whole milliseconds, a file system knows nanoseconds.
    found = first_reading(FILES[:1], {A: facts(later_ms=0.75)})
    assert found.seen == {}
    again = repeated_reading(FILES[:1], {A: facts(later_ms=0.75)}, found)
    assert again.read == (A,)


def test_a_repeat_reads_unchanged_files_and_rejects_each_that_changed_or_is_gone_once() -> None:
    committed = first_reading(FILES, {file.uri: facts() for file in FILES})
    now = {A: facts(), B: facts(later_ms=1), C: None, D: facts(later_ms=-1)}
    again = repeated_reading(FILES, now, committed)
    assert again.read == (A,)
    assert [(v.part, v.reason) for v in again.verdicts] == [
        (uri, "changed file") for uri in (B, C, D)
    ]
    details = [v.detail for v in again.verdicts]
    assert "has changed since" in details[0]
    assert "is gone since" in details[1]
    assert all("Bronze keeps what it took" in detail for detail in details)


def test_a_file_that_changed_before_its_first_reading_is_unchanged_when_it_is_repeated() -> None:
    committed = first_reading(FILES[:1], {A: facts(later_ms=5_000)})
    assert repeated_reading(FILES[:1], {A: facts(later_ms=5_000)}, committed).read == (A,)
    put_back = repeated_reading(FILES[:1], {A: facts()}, committed)
    assert [v.reason for v in put_back.verdicts] == ["changed file"]


def test_a_verdict_that_was_committed_with_bronze_stays_whatever_the_file_is_now() -> None:
    first = first_reading(FILES[:3], {A: facts(), B: None, C: facts()})
    committed = leave_out(first, [unreadable(C, "It cannot be read to its end")])
    again = repeated_reading(FILES[:3], {A: facts(), B: facts(), C: facts()}, committed)
    assert again == committed


def test_leaving_files_out_keeps_the_earlier_verdicts() -> None:
    files = Reading((A, B), (PartVerdict(C, "malformed", "empty"),), {A: 5})
    left = leave_out(files, [unreadable(B, "It is no gzip")])
    assert left.read == (A,)
    assert [v.part for v in left.verdicts] == [C, B]
    assert left.seen == {A: 5}
    assert "land it under another name" in left.verdicts[1].detail
