"""What a run published, kept in the note of gold's commit.

A publish that is killed behind its commit is tried again, and finds nothing to do: whoever waits
for the range of windows gets it from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice

from deltalake import DeltaTable

from tidemark.gold.pins import Published
from tidemark.operators.repaired import BACKFILL, MIGRATION
from tidemark.storage.delta.notes import PublishedNote, note_of
from tidemark.storage.delta.opened import newest_first

# Fences and what maintenance commits may come behind a publish.
_RECENT = 20


def publish_note(run_id: str, started_at: datetime, trigger: str | None = None) -> PublishedNote:
    """What a publish says of its run in gold's commit; `trigger` where it is none of the
    stream's."""
    return PublishedNote(run=run_id, started_at=started_at.astimezone(UTC), trigger=trigger)


def published_note(note: PublishedNote, changed: Published | None) -> PublishedNote:
    """The note (`publish_note`) with the windows that gold's commit changed, where it did any."""
    return note.model_copy(update=changed.model_dump() if changed else {})


def published_before(gold: DeltaTable, run_id: str, trigger: str | None = None) -> Published | None:
    """What a run published, by the last commits, in whichever of its tries: one that is begun anew
    has another start.

    The stream's runs come one after the other, and a backfill between any two of them: a run of
    the stream is looked for up to another one, a backfill in all of the last commits. Several
    commits of one run are told together. Costs the reading of one commit, where gold's newest is
    a publish of another run of the stream.
    """
    found: list[Published] = []
    for commit in islice(newest_first(gold), _RECENT):
        note = note_of(commit)
        if not isinstance(note, PublishedNote):
            continue
        if (note.run, note.trigger) == (run_id, trigger):
            if note.start_ms is not None and note.end_ms is not None:
                start, end = note.start_ms, note.end_ms
                found.append(Published(windows=note.windows, start_ms=start, end_ms=end))
        elif not {BACKFILL, MIGRATION} & {trigger, note.trigger}:
            break
    return together(found)


def together(found: Sequence[Published]) -> Published | None:
    """What several commits of a run published; None of none."""
    if not found:
        return None
    return Published(
        windows=sum(one.windows for one in found),
        start_ms=min(one.start_ms for one in found),
        end_ms=max(one.end_ms for one in found),
    )
