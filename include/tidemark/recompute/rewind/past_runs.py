"""The runs that a pipeline can be taken back to the end of, as `ops/runs` and the tables' logs tell
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable
from pyarrow.dataset import field

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import RewindRefused
from tidemark.pipeline.model import Pipeline
from tidemark.runs.recorded_runs import INTERRUPTED, SUCCEEDED
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.surviving_commits import surviving_commits
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class PastRun:
    """A run that published: when it ended (UTC), the versions of bronze and rejects that it left,
    and those of gold by table, of those that were published by then."""

    run: str
    ended_at: datetime
    bronze: int
    rejects: int
    gold: Mapping[str, int]


@dataclass(frozen=True)
class PastRuns:
    """The runs to go back to, oldest first, and by their names the others: why not. `ended`: when
    each ended that no rewind has undone yet."""

    runs: tuple[PastRun, ...]
    others: Mapping[str, str]
    ended: Mapping[str, datetime]

    def named(self, run: str) -> PastRun:
        """RewindRefused where there is none of this name to go back to."""
        for one in self.runs:
            if one.run == run:
                return one
        why = self.others.get(run, "ops/runs knows no such run of it")
        there = shown(one.run for one in reversed(self.runs)) if self.runs else "none"
        raise RewindRefused(
            f"The pipeline cannot go back to the end of {run}: {why}. Runs to go back to, the "
            f"newest first: {there}. Nothing was changed."
        )

    def after(self, time: datetime) -> tuple[str, ...]:
        """The runs that ended after a time and count, oldest first; failed and held ones too, for
        these may have taken rows in."""
        return tuple(name for name, ended in self.ended.items() if ended > time)

    def until(self, time: datetime) -> frozenset[str]:
        """The other ones."""
        return frozenset(name for name, ended in self.ended.items() if ended <= time)


def past_runs(pipeline: Pipeline, warehouse: Warehouse) -> PastRuns:
    """Read `ops/runs` and the log of bronze. RewindRefused where there is neither."""
    recorded, bronze = warehouse.runs.open(), warehouse.bronze.open()
    if recorded is None or bronze is None:
        raise RewindRefused(
            f"{pipeline.name} has not run yet, so there is nothing to go back to. Nothing was "
            "changed."
        )
    runs: dict[str, PastRun] = {}
    others: dict[str, str] = {}
    ended: dict[str, datetime] = {}
    gold: dict[str, int] = {}
    counting = {"bronze": _versions_that_count(bronze)}
    if (rejects := warehouse.rejects.open()) is not None:
        counting["rejects"] = _versions_that_count(rejects)
    newest = (-1, -1)
    for row in _rows(recorded, pipeline.name):
        name, versions = row["run"], dict(row["versions"] or ())
        taken_back = any(
            table in versions and versions[table] not in known for table, known in counting.items()
        )
        if not taken_back:
            ended[name] = row["ended_at"]
            if row["outcome"] == SUCCEEDED:
                gold |= _published(row)
        at = (versions.get("bronze", -1), versions.get("rejects", -1))
        runs.pop(name, None)
        if why := _why_not(row, at, newest, taken_back):
            others[name] = why
        else:
            newest = at
            runs[name] = PastRun(name, row["ended_at"], *at, dict(gold))
    return PastRuns(tuple(runs.values()), others, ended)


def _why_not(
    row: Mapping[str, Any], at: tuple[int, int], newest: tuple[int, int], taken_back: bool
) -> str | None:
    if min(at) < 0:
        return f"it is no run of the stream, or was not recorded to its end ({row['trigger']})"
    if row["outcome"] == INTERRUPTED:
        return "it was killed while it published, and nobody knows what of it"
    if row["outcome"] != SUCCEEDED:
        return f"it published nothing ({row['outcome']})"
    if taken_back:
        return (
            "a rewind has undone it, rows were erased since, or the tables' logs do not reach back "
            "to it"
        )
    if at[0] < newest[0] or at[1] < newest[1]:
        return "it was published after a later run"
    return None


def query_of(ingest: Checkpoint) -> str:
    """The id of the ingest's query. RewindRefused where its checkpoint does not say it."""
    query = ingest.query_id()
    if query is None:
        raise RewindRefused(
            f"{ingest.uri} has no `metadata`, so it does not say which query it is of, and its "
            "tables cannot be taken back with it. Nothing was changed. `tidemark checkpoint "
            "doctor` says what it lacks."
        )
    return query


def last_batch(warehouse: Warehouse, ingest: Checkpoint, run: PastRun) -> int:
    """The last batch of ingest that a run, or one before it, has committed. RewindRefused where the
    tables do not know it."""
    query = query_of(ingest)
    found = (
        warehouse.bronze.at_version(run.bronze).transaction_version(query),
        warehouse.rejects.at_version(run.rejects).transaction_version(query),
    )
    batch = max((one for one in found if one is not None), default=None)
    if batch is None:
        raise RewindRefused(
            f"At the end of {run.run}, {warehouse.bronze.uri} had no batch of the query that fills "
            "it by now: the pipeline has begun anew since. Nothing was changed. Name a later run."
        )
    return batch


def _rows(recorded: DeltaTable, pipeline: str) -> list[dict[str, Any]]:
    """Its runs in the order of their ends. One that was interrupted has none: its start counts."""
    columns = ["run", "trigger", "outcome", "started_at", "ended_at", "versions", "tables"]
    table = dataset_of(recorded, f"pipeline = '{pipeline}'").to_table(
        columns=columns, filter=field("pipeline") == pipeline
    )
    rows = [row | {"ended_at": row["ended_at"] or row["started_at"]} for row in table.to_pylist()]
    return sorted((row for row in rows if row["ended_at"]), key=lambda row: row["ended_at"])


def _versions_that_count(table: DeltaTable) -> frozenset[int]:
    return frozenset(int(commit["version"]) for commit in surviving_commits(table.history()))


def _published(row: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return (
        (table["table"], table["gold_version"])
        for table in row["tables"] or ()
        if table["gold_version"] is not None
    )
