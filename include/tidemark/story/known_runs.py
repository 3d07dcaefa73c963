"""What `ops/` tells of a pipeline's runs: what each published of a table, what a rewind undid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from tidemark.errors import StorageUnavailable
from tidemark.gold.plan import CHANGES, CLOSE
from tidemark.ledger.ledger import INGEST, REWOUND
from tidemark.pipeline.instants import instant_of
from tidemark.runs.generations import RETRACT
from tidemark.runs.recorded_runs import one_row_each
from tidemark.storage.delta.appended import commit_actions
from tidemark.storage.delta.ops import own_rows
from tidemark.storage.generation import GENERATION
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import REWIND


@dataclass(frozen=True)
class KnownPublish:
    """A publish of a table up to a version of the history of a generation, by which gold was closed
    up to `close`."""

    run: str | None
    generation: int
    changes: int
    close: datetime | None


@dataclass(frozen=True)
class KnownRuns:
    """The runs of a pipeline that `ops/` knows, and what they published of a table."""

    warehouse: Warehouse
    table: str

    @cached_property
    def _rows(self) -> list[Mapping[str, Any]]:
        columns = ("run", "trigger", "outcome", "started_at", "ended_at", "tables", "by", "reason")
        rows = own_rows(self.warehouse.runs.open(), self.warehouse.places.pipeline, columns)
        return sorted(one_row_each(rows), key=lambda row: row["started_at"])

    def started(self, run: str | None) -> datetime | None:
        """When a run first started; None where it is not known any more."""
        return self._started.get(run or "")

    @cached_property
    def _started(self) -> dict[str, datetime]:
        return {row["run"]: row["started_at"] for row in reversed(self._rows)}

    @cached_property
    def reasons(self) -> dict[str, tuple[str | None, str]]:
        """Who gave a reason for an act, and which, by its run."""
        return {row["run"]: (row["by"], row["reason"]) for row in self._rows if row["reason"]}

    @cached_property
    def retractions(self) -> frozenset[str]:
        """The runs of retractions, and of undos of these."""
        return frozenset(row["run"] for row in self._rows if row["trigger"] == RETRACT)

    @cached_property
    def publishes(self) -> tuple[KnownPublish | None, ...]:
        """Those of the table, oldest first; None for one of which nobody knows what."""
        return tuple(
            self._publish(row["run"], of)
            for row in self._rows
            for of in row["tables"] or ()
            if of["table"] == self.table and of["gold_version"] is not None
        )

    def _publish(self, run: str, of: Mapping[str, Any]) -> KnownPublish | None:
        changes, generation = of["changes_version"], of["generation"]
        close = of["close_after"]
        if changes is None:
            # Of a run that was killed then, gold's own log tells it.
            try:
                actions = commit_actions(self.warehouse.gold(self.table), of["gold_version"])
            except StorageUnavailable:
                return None
            said = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
            changes, generation = said.get(CHANGES), said.get(GENERATION)
            close = instant_of(said[CLOSE]) if said.get(CLOSE) else close
        if changes is None or generation is None:
            return None
        return KnownPublish(run, generation, changes, close)

    @cached_property
    def rewinds(self) -> list[Mapping[str, Any]]:
        """The rewinds that count, oldest first: `id`, the `run` and `time` of its own, and `runs`,
        which count no more since. One that was itself taken back does not count."""
        asked = ("run", "kind", "time", "rewind")
        rows = own_rows(self.warehouse.upkeep.open(), self.warehouse.places.pipeline, asked)
        found = [row["rewind"] | row for row in rows if row["kind"] == REWIND and row["rewind"]]
        counting, since = list[Mapping[str, Any]](), None
        for one in sorted(found, key=lambda one: one["time"], reverse=True):
            # An undo takes back its rewind, and all that were since.
            if since is None or one["id"] < since:
                counting.append(one)
                since = one["undoes"] or since
        return counting[::-1]


def ingested_by(warehouse: Warehouse, batches: Collection[int]) -> dict[int, str]:
    """The runs that committed batches of ingest, by the ledger's lines that count; without those
    that it does not have any more."""
    columns = ("kind", "batch", "run", REWOUND)
    return {
        row["batch"]: row["run"]
        for row in own_rows(warehouse.ledger.open(), warehouse.places.pipeline, columns)
        if row["kind"] == INGEST and row[REWOUND] is None
        and row["run"] is not None and row["batch"] in batches
    }  # fmt: skip
