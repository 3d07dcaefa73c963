"""Which rows the checks of the source are asked of: a run's own, and what was never judged.

A run that is killed or fails behind its ingest leaves batches that the next one finds read, and
publishes with its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

from tidemark.gold.plan import noted_name
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.places import INGEST
from tidemark.runs.found import REJECTS
from tidemark.runs.recorded_runs import INTERRUPTED, SUCCEEDED
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.notes import IngestNote, note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.ops import newest_rows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.rows import Rows
from tidemark.storage.delta.surviving_commits import surviving_commits
from tidemark.storage.warehouse import Warehouse

# Rows of a table of `ops` that are asked for at most: acts leave some that tell nothing here.
_MOST_ASKED = 256


@dataclass(frozen=True)
class RowsToJudge:
    """The rows that a run is judged by. What they are is read when it is asked for, and a run with
    nothing new reads one commit of each table for it."""

    run: RunResult
    warehouse: Warehouse

    @property
    def rows(self) -> Rows:
        return self.run.rows + self.earlier

    @cached_property
    def earlier(self) -> Rows:
        """Those of batches before the run's own that no validation has judged, and that are not
        published."""
        # Where a batch was repeated, the note beside its rejects was written last.
        places = {BRONZE: self.warehouse.bronze, REJECTS: self.warehouse.rejects}
        found: dict[int, Rows] = {}
        for name, place in places.items():
            found |= _batches(place, self._judged_to[name], self.run.versions.get(name, -1))
        own = self.run.batches.get(INGEST, ())
        return sum((rows for batch, rows in found.items() if batch not in own), Rows())

    def are_of(self, run: Mapping[str, Any]) -> bool:
        """Are they those of an earlier run too, by its row in `ops/runs`?"""
        versions = dict(run.get("versions") or ())
        return any(versions.get(name, -1) > at for name, at in self._judged_to.items())

    @cached_property
    def _judged_to(self) -> dict[str, int]:
        """The newest versions of bronze and rejects whose rows were judged, or are published."""
        # A former version noted with no verdict how far it judges, and gold notes these versions
        # only now and then where no window changes: what a published run has found is published.
        known = self._newest_versions(self.warehouse.quality) or self._newest_versions(
            self.warehouse.runs, (SUCCEEDED, INTERRUPTED)
        )
        return {
            name: max(known.get(name, -1), self._published_to(name)) for name in (BRONZE, REJECTS)
        }

    def _newest_versions(self, place: TablePlace, outcomes: Collection[str] = ()) -> dict[str, int]:
        """Those that the newest row of a table of `ops` notes, of a run before this one, so that a
        repeat finds the same. `outcomes`: what that run came to, where that is asked."""
        table, asked = place.open(), 1
        while table is not None and asked <= _MOST_ASKED:
            rows = newest_rows(table, self.run.pipeline, "started_at", asked)
            for row in rows:
                versions = dict(row.get("versions") or ())
                # Acts note none, or that of bronze alone.
                is_told = REJECTS in versions and row["started_at"] < self.run.started_at
                if is_told and (not outcomes or row["outcome"] in outcomes):
                    return versions
            if len(rows) < asked or "versions" not in rows[0]:
                break
            asked *= 4
        return {}

    def _published_to(self, name: str) -> int:
        noted = [
            self.warehouse.gold(table).existing().transaction_version(noted_name(name, one.id))
            for table, pins in self.run.tables.items()
            if (one := pins.rests_on.get(name)) is not None
        ]
        return max((at for at in noted if at is not None), default=-1)


def _batches(place: TablePlace, after: int, up_to: int) -> dict[int, Rows]:
    """What the commits (after, up_to] note of their batches; the log is read back to there."""
    if up_to <= after:
        return {}
    commits = surviving_commits(newest_first(place.existing()))
    return {
        note.batch: note.rows
        for commit in takewhile(lambda one: one["version"] > after, commits)
        if commit["version"] <= up_to and isinstance(note := note_of(commit), IngestNote)
    }
