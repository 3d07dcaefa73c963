"""The watermark: is it far ahead of the data, and does a no-data batch wait for it?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tidemark.checkpoint.doctor.findings import Finding, FindingKind, Severity, examples
from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.pipeline.instants import instant_text, length_of

# A clock that runs ahead by less than this moves no window that matters for long.
_FAR = timedelta(hours=1)


def watermark_ms(facts: CheckpointFacts) -> int:
    """The watermark that the next batch runs by, in milliseconds since 1970; 0 for none.

    That is the larger one of the last offsets' and the last commit's (populateStartOffsets).
    """
    offsets = facts.offsets.entry(facts.offsets.newest)
    commit = facts.commits.entry(facts.commits.newest)
    planned = (offsets.watermark_ms or 0) if offsets else 0
    return max(planned, commit.next_watermark_ms if commit else 0)


def waits_for_watermark(facts: CheckpointFacts, output_mode: str | None) -> bool:
    """Did the last batch move the watermark, and no batch after it apply that to the state?

    In complete mode no operator asks for such a batch (shouldRunAnotherBatch).
    """
    newest = facts.offsets.newest
    if newest is None or facts.commits.newest != newest or not facts.operators:
        return False
    offsets, commit = facts.offsets.entry(newest), facts.commits.entry(newest)
    if offsets is None or commit is None or output_mode == "complete":
        return False
    return commit.next_watermark_ms > (offsets.watermark_ms or 0)


def no_data_batch(facts: CheckpointFacts, output_mode: str | None) -> Finding:
    """The finding for a checkpoint whose last run ended before its no-data batch."""
    batch = facts.commits.newest
    commit, offsets = facts.commits.entry(batch), facts.offsets.entry(batch)
    after = commit.next_watermark_ms if commit else 0
    before = (offsets.watermark_ms or 0) if offsets else 0
    unsure = "" if output_mode else " (not in complete mode, which the files do not tell)"
    return Finding(
        FindingKind.NO_DATA_BATCH,
        Severity.NOTE,
        f"commits/{batch} leaves the watermark {instant_text(after)}, and offsets/{batch} ran by "
        f"{instant_text(before)}: no batch has applied the newer one to the state. The last run "
        "ended before its no-data batch.",
        "A start does not make up for it by itself: without new rows a query that has just started"
        " has no last batch to ask. The next batch with rows applies the watermark"
        f"{unsure}.",
        "None is lost. In append mode, windows that the watermark closes have not been emitted.",
        "Nothing has to be done where new rows come. Otherwise land a row, or have the windows "
        "computed from the source.",
        *examples([f"commits/{batch}", f"offsets/{batch}"]),
    )


def watermark_findings(facts: CheckpointFacts, newest_event_ms: int | None) -> Iterator[Finding]:
    """A watermark that one event far in the future has moved: it never goes back."""
    watermark = watermark_ms(facts)
    newest = facts.offsets.newest
    offsets = facts.offsets.entry(newest)
    if not watermark or offsets is None:
        return
    far = _FAR // timedelta(milliseconds=1)
    batch_time = offsets.batch_time_ms or 0
    if newest_event_ms is not None and watermark > newest_event_ms:
        yield _ahead(
            facts, watermark, newest_event_ms, "the newest event in the table that it reads"
        )
    elif batch_time and watermark > batch_time + far:
        yield _ahead(facts, watermark, batch_time, f"the time of batch {newest}")


def _ahead(facts: CheckpointFacts, watermark: int, other: int, what: str) -> Finding:
    ahead = length_of(watermark - other)
    return Finding(
        FindingKind.WATERMARK,
        Severity.WARNING,
        f"The watermark is {instant_text(watermark)}, {ahead} after {what} "
        f"({instant_text(other)}).",
        "It drops every row older than the watermark as late, without an error; the watermark "
        "never goes back.",
        "All rows until that time comes: they are dropped from the state.",
        "Find the event that is far in the future, and keep such rows out before the watermark. "
        "The query needs a new checkpoint, begun from the source, to take older rows again.",
        *examples([f"offsets/{facts.offsets.newest}"]),
    )
