"""What `ops/` tells of a pipeline's runs: what each published of a table, which a rewind undid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow.dataset as ds

from tidemark.errors import StorageUnavailable
from tidemark.gold.plan import CHANGES
from tidemark.ledger.ledger import INGEST, REWOUND
from tidemark.runs.recorded_runs import one_row_each
from tidemark.storage.delta.appended import commit_actions
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.record import REWIND

_OF_RUNS = ("run", "outcome", "started_at", "ended_at", "tables")


@dataclass(frozen=True)
class KnownPublish:
    """A publish of a table up to a version of the history of a generation. `close`: up to where
    gold was closed then."""

    run: str | None
    generation: int
    changes: int
    close: datetime | None


@dataclass(frozen=True)
class RunsKnown:
    """The runs of a pipeline, as far as `ops/runs` goes back."""

    warehouse: Warehouse
    table: str

    @cached_property
    def _rows(self) -> list[Mapping[str, Any]]:
        """One of each try of a run, oldest first."""
        rows = one_row_each(_own(self.warehouse.runs, self._pipeline, _OF_RUNS))
        return sorted(rows, key=lambda row: row["started_at"])

    @property
    def _pipeline(self) -> str:
        return self.warehouse.places.pipeline

    def started(self, run: str | None) -> datetime | None:
        """When a run first started; None where it is not known any more."""
        return self._started.get(run or "")

    @cached_property
    def _started(self) -> dict[str, datetime]:
        return {row["run"]: row["started_at"] for row in reversed(self._rows)}

    @cached_property
    def publishes(self) -> tuple[KnownPublish, ...]:
        """Those of the table, oldest first."""
        return tuple(one for row in self._rows for one in self._published(row))

    @cached_property
    def unknown(self) -> bool:
        """Did a run publish something of which nobody knows what?"""
        return any(
            of["gold_version"] is not None and of["changes_version"] is None
            and self._by_gold(of["gold_version"]) is None
            for row in self._rows for of in _of_table(row, self.table)
        )  # fmt: skip

    def _published(self, row: Mapping[str, Any]) -> Iterator[KnownPublish]:
        for of in _of_table(row, self.table):
            if of["gold_version"] is None:
                continue
            changes, generation = of["changes_version"], of["generation"]
            if changes is None:
                changes, generation = self._by_gold(of["gold_version"]) or (None, None)
            if changes is not None and generation is not None:
                yield KnownPublish(row["run"], generation, changes, of["close_after"])

    def _by_gold(self, version: int) -> tuple[int, int] | None:
        """The pin and the generation that a commit of gold notes; None where its log no longer has
        it."""
        try:
            actions = commit_actions(self.warehouse.gold(self.table), version)
        except StorageUnavailable:
            return None
        said = {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
        return (said[CHANGES], said["generation"]) if CHANGES in said else None

    @cached_property
    def rewinds(self) -> tuple[Rewind, ...]:
        """The rewinds that count, oldest first: one that was itself taken back does not."""
        asked = ("run", "kind", "time", "rewind")
        rows = [row for row in _own(self.warehouse.upkeep, self._pipeline, asked)
                if row["kind"] == REWIND and row["rewind"]]  # fmt: skip
        undone = {row["rewind"]["undoes"] for row in rows}
        found = [
            Rewind(one["id"], row["run"], row["time"], frozenset(one["runs"] or ()))
            for row in rows
            if (one := row["rewind"])["id"] not in undone
        ]
        return tuple(sorted(found, key=lambda one: one.at))

    def ingested_by(self, batches: Iterable[int]) -> dict[int, str]:
        """The runs that committed batches of ingest, by the ledger's lines that count; without
        those that it does not have any more."""
        wanted, found = set(batches), dict[int, str]()
        for row in _own(self.warehouse.ledger, self._pipeline, ("kind", "batch", "run", REWOUND)):
            counts = row["kind"] == INGEST and row[REWOUND] is None
            if counts and row["run"] is not None and row["batch"] in wanted:
                found[row["batch"]] = row["run"]
        return found


@dataclass(frozen=True)
class Rewind:
    """A rewind of the pipeline: its own run, and the runs that count no more since `at`."""

    id: str
    run: str
    at: datetime
    runs: frozenset[str] = field(default_factory=frozenset)


def _own(place: TablePlace, pipeline: str, columns: Iterable[str]) -> list[dict[str, Any]]:
    """A pipeline's rows of a table of `ops/`; a column that it lacks is null."""
    table = place.open()
    if table is None:
        return []
    known = dataset_of(table, f"pipeline = '{pipeline}'")
    there = [name for name in columns if name in known.schema.names]
    rows = known.to_table(columns=there, filter=ds.field("pipeline") == pipeline)
    empty = dict.fromkeys(columns)
    return [{**empty, **row} for row in rows.to_pylist()]


def _of_table(row: Mapping[str, Any], table: str) -> Iterator[dict[str, Any]]:
    return (of for of in row["tables"] or () if of["table"] == table)
