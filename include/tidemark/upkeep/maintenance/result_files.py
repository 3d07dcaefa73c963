"""Result files that nobody will read any more: pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tidemark.pipeline.durations import duration_text
from tidemark.storage.files import FileFacts
from tidemark.upkeep.maintenance.plan import MaintenancePlan, Part, Work


def plan_results(
    uri: str, files: Mapping[str, FileFacts], keep: timedelta, now: datetime
) -> MaintenancePlan:
    """Those that were last written longer ago than `keep`, by the listing of their folder."""
    going = tuple(sorted(place for place, facts in files.items() if facts.modified < now - keep))
    part = Part(
        Work.RESULT_FILES,
        len(files),
        sum(facts.size for facts in files.values()),
        len(going),
        sum(files[place].size for place in going),
        f"written more than {duration_text(keep)} ago",
    )
    return MaintenancePlan("results", uri, (part,), remove=going)
