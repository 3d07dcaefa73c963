"""Which entries of a Delta log no reader needs any more: pure.

The protocol's own rule (PROTOCOL.md, Metadata Cleanup): from a checkpoint on, the entries before it
are not needed to build a version. `cleanup_metadata` of delta-rs knows an age only; here the
checkpoint must also not be newer than what a reader still has to read entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidemark.pipeline.durations import duration_text
from tidemark.storage.files import FileFacts
from tidemark.upkeep.maintenance.plan import Part, Work

# Also a checksum that Hadoop writes beside a file on a disk.
_ENTRY = re.compile(r"^\.?(\d{20})\.")
_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint\.parquet$")
# As often as Delta on Spark writes one, by default.
_MOST_AFTER_A_CHECKPOINT = 10


@dataclass(frozen=True)
class LogPlan:
    """The places that may go, the oldest version first, so that what is left has no hole: those
    below `base`, the version of a checkpoint; and whether one of the newest version is due."""

    base: int | None
    going: tuple[str, ...]
    checkpoint: bool
    part: Part

    def without_going(self, reason: str) -> LogPlan:
        """All entries stay, for this reason."""
        part = replace(self.part, going=0, going_size=0, reason=reason)
        return replace(self, going=(), part=part)


def plan_log(
    files: Mapping[str, FileFacts], needed_from: int, keep: timedelta, now: datetime
) -> LogPlan:
    """What may go of a log, by the listing of its folder.

    Versions from `needed_from` on stay, and those of which a file was written in the last `keep`.
    """
    entries = {place: (place.rpartition("/")[2], facts) for place, facts in files.items()}
    commits = _versions(_COMMIT, entries)
    checkpoints = _versions(_CHECKPOINT, entries)
    young = [v for v, modified in commits.items() if modified >= now - keep]
    kept_from = min([needed_from, *young])
    base = max((version for version in checkpoints if version <= kept_from), default=None)
    numbered = sorted(
        (int(found[1]), place)
        for place, (name, _) in entries.items()
        if (found := _ENTRY.match(name))
    )
    going = tuple(place for version, place in numbered if base is not None and version < base)
    newest = max(checkpoints, default=-1)
    due = sum(version > newest for version in commits) >= _MOST_AFTER_A_CHECKPOINT
    part = Part(
        Work.LOG,
        len(numbered),
        sum(files[place].size for _, place in numbered),
        len(going),
        sum(files[place].size for place in going),
        _reason(base, kept_from, needed_from, keep),
    )
    return LogPlan(base, going, due, part)


def _reason(base: int | None, kept_from: int, needed_from: int, keep: timedelta) -> str:
    why = "a reader or a repeated batch needs it"
    if kept_from < needed_from:
        why = f"it is of the last {duration_text(keep)}"
    if base is None:
        return f"no checkpoint up to version {kept_from}, which stays: {why}"
    return f"entries below checkpoint {base} may go; version {kept_from} stays: {why}"


def _versions(
    pattern: re.Pattern[str], entries: Mapping[str, tuple[str, FileFacts]]
) -> dict[int, datetime]:
    return {
        int(found[1]): facts.modified
        for name, facts in entries.values()
        if (found := pattern.match(name))
    }
