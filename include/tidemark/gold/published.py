"""What a run published, kept in the metadata of gold's commit.

A publish that is killed behind its commit is tried again, and finds nothing to do: whoever waits
for the range of windows gets it from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from deltalake import DeltaTable

from tidemark.gold.pins import Published
from tidemark.operators.repaired import BACKFILL

# In the metadata of gold's commit.
TRIGGER = "trigger"
_WINDOWS, _START, _END = "windows", "windows_start_ms", "windows_end_ms"
# Fences and what maintenance commits may come behind a publish.
_RECENT = 20


def publish_note(run_id: str, started_at: datetime, trigger: str | None = None) -> dict[str, str]:
    """What a publish says of its run in the metadata of gold's commit; `trigger` where it is none
    of the stream's."""
    told = {"run": run_id, "started_at": started_at.astimezone(UTC).isoformat()}
    return told | ({TRIGGER: trigger} if trigger else {})


def published_note(changed: Published | None) -> dict[str, str]:
    """What gold's commit says of the windows that it changed; nothing where it changed none."""
    if changed is None:
        return {}
    return {
        _WINDOWS: str(changed.windows),
        _START: str(changed.start_ms),
        _END: str(changed.end_ms),
    }


def published_before(gold: DeltaTable, note: Mapping[str, str]) -> Published | None:
    """What the run of this note (`publish_note`, or a part of it) published, by the last commits.

    The stream's runs come one after the other, and a backfill between any two of them: a run of
    the stream is looked for up to another one, a backfill in all of the last commits. Several
    commits of one run are told together. Costs the reading of one commit, where gold's newest is
    a publish of another run of the stream.
    """
    for limit in (1, _RECENT):
        found: list[Published] = []
        for commit in gold.history(limit):
            if "run" not in commit:
                continue
            if all(commit.get(key) == value for key, value in note.items()):
                found += _published(commit)
            elif BACKFILL not in (note.get(TRIGGER), commit.get(TRIGGER)):
                return _together(found)
    return _together(found)


def _published(commit: Mapping[str, str]) -> list[Published]:
    if _WINDOWS not in commit:
        return []
    start, end = int(commit[_START]), int(commit[_END])
    return [Published(windows=int(commit[_WINDOWS]), start_ms=start, end_ms=end)]


def _together(found: Sequence[Published]) -> Published | None:
    if not found:
        return None
    return Published(
        windows=sum(one.windows for one in found),
        start_ms=min(one.start_ms for one in found),
        end_ms=max(one.end_ms for one in found),
    )
