"""Whose checkpoint is it: the query's id, and traces of another query in the same folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tidemark.checkpoint.doctor.findings import Finding, FindingKind, Severity, shown
from tidemark.checkpoint.reading.facts import CheckpointFacts, Unreadable
from tidemark.checkpoint.reading.log_formats import OffsetEntry
from tidemark.checkpoint.reading.source_offsets import (
    CountOffset,
    DeltaOffset,
    FileOffset,
    source_offset,
)

_OTHER_ROWS = "Rows that one writer took and the other one did not write, and rows written twice."
_ONE_WRITER = (
    "Stop all queries that use this folder; keep one of them. Compare its tables with the source."
)


def identity_findings(facts: CheckpointFacts, query_ids: Sequence[str]) -> Iterator[Finding]:
    """The metadata file: missing, unusable, or of another query than one of `query_ids`."""
    found = facts.query_id
    started = bool(facts.offsets.batches or facts.commits.batches or facts.operators)
    if found is None and started:
        yield Finding(
            FindingKind.METADATA,
            Severity.DAMAGE,
            "The file `metadata`, which holds the query's id, is missing.",
            "Spark 4.2 stops with `STREAMING_CHECKPOINT_MISSING_METADATA_FILE`; a version without "
            "that check gives the query a new id and goes on.",
            "With a new id, a Delta sink takes batches again that it has already.",
            "Restore the file from a backup. A Delta sink's log tells the id: the `appId` of its "
            "transactions.",
            ("metadata",),
            1,
        )
    elif isinstance(found, Unreadable):
        yield Finding(
            FindingKind.METADATA,
            Severity.UNKNOWN if found.undecided else Severity.DAMAGE,
            f"{found.summary}.",
            "It reads this file at a start, and stops where it cannot.",
            "None yet: nothing runs.",
            "Restore the file from a backup. A Delta sink's log tells the id: the `appId` of its "
            "transactions.",
            ("metadata",),
            1,
        )
    elif found is not None and query_ids and found not in query_ids:
        yield Finding(
            FindingKind.OTHER_QUERY,
            Severity.DAMAGE,
            f"`metadata` holds the id {found}, but the query that was asked for is "
            f"{query_ids[-1]}.",
            "It does not compare: it runs as the query of the id in the file.",
            "A Delta sink knows batches by that id: it skips or repeats them wrongly.",
            "Give each query its own folder, and restore the one that belongs to this query.",
            ("metadata",),
            1,
        )


def writer_findings(facts: CheckpointFacts) -> Iterator[Finding]:
    """What one writer never does: time, watermark, offsets or fixed configuration that go back."""
    entries = [entry for batch in facts.offsets.batches if (entry := facts.offsets.entry(batch))]
    for before, after in pairwise(entries):
        if after.batch == before.batch + 1 and (broken := _broken(facts, before, after)):
            # A start asks each source for the last batch once more; a file source refuses.
            stops = after.batch == facts.offsets.newest and _file_source_goes_back(before, after)
            yield Finding(
                FindingKind.TWO_WRITERS,
                Severity.DAMAGE if stops else Severity.WARNING,
                f"offsets/{after.batch} does not follow from batch {before.batch}: "
                f"{'; '.join(broken)}.",
                "It stops: `assertion failed` (FileStreamSource.getBatch)."
                if stops
                else "It does not compare them, and goes on.",
                _OTHER_ROWS,
                f"Two queries wrote here, or files of two copies were mixed, or the clock was set "
                f"back. {_ONE_WRITER}",
                (f"offsets/{before.batch}", f"offsets/{after.batch}"),
                2,
            )


def _broken(facts: CheckpointFacts, before: OffsetEntry, after: OffsetEntry) -> list[str]:
    broken = []
    if (after.batch_time_ms or 0) < (before.batch_time_ms or 0):
        broken.append("its time is before that batch's")
    commit = facts.commits.entry(before.batch)
    known = max(before.watermark_ms or 0, commit.next_watermark_ms if commit else 0)
    if after.watermark_ms is not None and after.watermark_ms < known:
        broken.append("its watermark is below the one that this batch left")
    back = [
        name for name, text in after.sources.items() if _goes_back(before.sources.get(name), text)
    ]
    if back:
        broken.append(f"source {shown(back)} goes back")
    changed = [key for key, value in after.conf.items() if before.conf.get(key, value) != value]
    if changed:
        # Only an offline repartition changes one of them on purpose.
        broken.append(f"the fixed configuration changes: {shown(changed)}")
    return broken


def _file_source_goes_back(before: OffsetEntry, after: OffsetEntry) -> bool:
    return any(
        text is not None
        and isinstance(source_offset(text), FileOffset)
        and _goes_back(before.sources.get(name), text)
        for name, text in after.sources.items()
    )


def _goes_back(before: str | None, after: str | None) -> bool:
    if before is None:
        return False
    if after is None:
        return True
    match source_offset(before), source_offset(after):
        case FileOffset(one), FileOffset(other):
            return other < one
        case CountOffset(one), CountOffset(other):
            return other < one
        case DeltaOffset() as one, DeltaOffset() as other if one.table_id == other.table_id:
            return (other.version, other.index) < (one.version, one.index)
    return False
