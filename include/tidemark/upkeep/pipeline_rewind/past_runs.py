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
from tidemark.runs.recorded_runs import SUCCEEDED
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.in_force import in_force
from tidemark.storage.warehouse import Warehouse

_MOST_SHOWN = 10


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


def past_runs(pipeline: Pipeline, warehouse: Warehouse) -> PastRuns:
    """Read `ops/runs` and the log of bronze. RewindRefused where there is neither."""
    recorded, bronze = warehouse.runs.open(), warehouse.bronze.open()
    if recorded is None or bronze is None:
        raise RewindRefused(
            f"{pipeline.name} has not run yet, so there is nothing to go back to. Nothing was "
            "changed."
        )
    rows = _rows(recorded, pipeline.name)
    counting = _versions_that_count(bronze)
    runs: dict[str, PastRun] = {}
    others: dict[str, str] = {}
    ended: dict[str, datetime] = {}
    gold: dict[str, int] = {}
    for row in rows:
        versions = dict(row["versions"] or ())
        taken_back = "bronze" in versions and versions["bronze"] not in counting
        if row["outcome"] == SUCCEEDED and not taken_back:
            gold |= _published(row)
        if not taken_back:
            ended[row["run"]] = row["ended_at"]
        if "bronze" not in versions or "rejects" not in versions:
            others.setdefault(row["run"], f"it is no run of the stream ({row['trigger']})")
        elif row["outcome"] != SUCCEEDED:
            others.setdefault(row["run"], f"it published nothing ({row['outcome']})")
        elif taken_back:
            others[row["run"]] = "a rewind has undone it, or bronze's log does not reach back to it"
        else:
            runs[row["run"]] = PastRun(
                row["run"], row["ended_at"], versions["bronze"], versions["rejects"], dict(gold)
            )
    return PastRuns(tuple(runs.values()), others, ended)


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
    """Its runs in the order of their ends; one that was never recorded to its end is none."""
    columns = ["run", "trigger", "outcome", "ended_at", "versions", "tables"]
    table = dataset_of(recorded, f"pipeline = '{pipeline}'").to_table(
        columns=columns, filter=(field("pipeline") == pipeline) & field("ended_at").is_valid()
    )
    rows: list[dict[str, Any]] = table.sort_by("ended_at").to_pylist()
    return rows


def _versions_that_count(bronze: DeltaTable) -> frozenset[int]:
    return frozenset(int(commit["version"]) for commit in in_force(bronze.history()))


def _published(row: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return (
        (table["table"], table["gold_version"])
        for table in row["tables"] or ()
        if table["gold_version"] is not None
    )
