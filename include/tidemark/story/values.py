"""Which values a row of gold had, by the histories of all generations, in their order.

A row of `changes` says which run computed it and why. What came after what is told by the versions
of the commits: a note of each says whose rows it has, so that no other row has to be read. Of what
the log has no longer, runs tell it, or nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.gold.plan import GoldState
from tidemark.operators.operator import Operator
from tidemark.operators.repaired import NOT_OF_GOLD, SEAL
from tidemark.pipeline.instants import instant_of
from tidemark.runs.contract.contract import Seed
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.storage.delta.notes import EmittedNote, RecomputedNote, note_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.story.asked import Asked
from tidemark.story.runs_known import KnownPublish, RunsKnown
from tidemark.story.story import RowValue

STREAM = "stream"
_RECENT = 50
# Of one row; beyond are only counted.
MOST_VALUES = 1_000
_BESIDE = ("cause", "generation", "run", "batch", FAILURE)


@dataclass(frozen=True)
class History:
    """The `changes` of a generation. `identity`: what it calls the columns of the row's identity,
    empty where its rows are others. `seed`: what it was computed from, None for the first one."""

    generation: int
    changes: DeltaTable
    identity: Mapping[str, str]
    seed: Seed | None


@dataclass(frozen=True)
class Commit:
    version: int
    at: datetime


def values_of(
    histories: Sequence[History], operator: Operator, asked: Asked, runs: RunsKnown, gold: GoldState
) -> tuple[list[RowValue], list[str]]:
    """All values, those of former generations first, and sentences on what is not known."""
    found, notes = list[RowValue](), list[str]()
    for history in histories:
        rows = _rows(history, asked)
        if len(rows) > MOST_VALUES:
            notes.append(
                f"Generation {history.generation} has {len(rows):,} values of the row; of these "
                f"{MOST_VALUES:,} are told."
            )
            rows = rows[:MOST_VALUES]
        values = _ordered([_value(row, history) for row in _with_commits(rows, history)], runs)
        if any(one.version is None for one in values):
            notes.append(
                f"The log of generation {history.generation} has been cleaned since some of its "
                "values came: what came after what is told by their runs, where these are known."
            )
        known = [one for one in runs.publishes if one.generation == history.generation]
        if gold.generation == history.generation:
            known.append(
                KnownPublish(None, gold.generation, gold.changes, instant_of(gold.close_ms))
            )
        found += judged(values, known, runs)
    return [_undone(one, runs) for one in found], notes


def _rows(history: History, asked: Asked) -> list[dict[str, Any]]:
    """The row's, in no order."""
    start = asked.start.isoformat()
    with duckdb_in_utc() as connection:
        connection.register("changes", dataset_of(history.changes, f"window_start = '{start}'"))
        connection.register("asked", asked.row)
        same = " AND ".join(
            f'c."{own}" IS NOT DISTINCT FROM a."{name}"' for name, own in history.identity.items()
        )
        others = ", ".join(f"'{cause}'" for cause in NOT_OF_GOLD)
        found = connection.sql(
            f"""
            SELECT c.* FROM (
                FROM changes WHERE window_start = TIMESTAMPTZ '{start}' AND cause NOT IN ({others})
            ) c SEMI JOIN asked a ON {same} LIMIT {MOST_VALUES + 1}
            """
        ).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _with_commits(rows: Sequence[dict[str, Any]], history: History) -> list[dict[str, Any]]:
    """Each with `_commit`, that which has it; None where the log does not tell."""
    keys = [_key(row) for row in rows]
    found: dict[tuple[Any, ...], list[Commit]] = defaultdict(list)
    for limit in (_RECENT, None):
        found.clear()
        for commit in history.changes.history(limit):
            note = note_of(commit)
            at = Commit(int(commit["version"]), instant_of(int(commit.get("timestamp") or 0)))
            if isinstance(note, EmittedNote):
                found[(note.batch,)].append(at)
            elif isinstance(note, RecomputedNote):
                found[note.cause, note.run].append(at)
        # A key stands in one commit, but for a run that was given twice.
        if all(found[key] for key in keys):
            break
    alike = {key for key in keys if len(found[key]) > 1}
    rows = [
        {**row, "_commit": found[key][0] if len(found[key]) == 1 else None}
        for row, key in zip(rows, keys, strict=True)
    ]
    for key in alike:
        mine = [row for row, one in zip(rows, keys, strict=True) if one == key]
        _by_feed(mine, found[key], history)
    return rows


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the note of its commit has of a row."""
    by_batch = row["cause"] == STREAM or (row["batch"] is not None and row["batch"] < 0)
    return (row["batch"],) if by_batch else (row["cause"], row["run"])


def _by_feed(rows: Sequence[dict[str, Any]], commits: Sequence[Commit], history: History) -> None:
    """A run was given twice, and both times computed the row: the feed of its commits tells which
    has which, where it is still there."""
    told = [name for name in schema_of(history.changes).names if name in rows[0]]
    left = list(rows)
    for commit in commits:
        with suppress(DeltaError, OSError, pa.ArrowException, duckdb.Error):
            there = [
                {name: row[name] for name in told} for row in _added(history, commit.version, rows)
            ]
            for row in left:
                if {name: row[name] for name in told} in there:
                    row["_commit"] = commit
                    left.remove(row)
                    break


def _added(
    history: History, version: int, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What a commit appended of the same start."""
    start = next(iter(rows))[history.identity["window_start"]]
    feed = history.changes.load_cdf(starting_version=version, ending_version=version)
    with duckdb_in_utc() as connection:
        connection.register("feed", pa.RecordBatchReader.from_stream(feed))
        sql = f"FROM feed WHERE window_start = TIMESTAMPTZ '{start.isoformat()}'"
        found: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
    return found


def _value(row: Mapping[str, Any], history: History) -> RowValue:
    identity = {*history.identity.values(), *_BESIDE, "_commit", "rows"}
    gone = not row["rows"] or row.get(FAILURE) is not None
    values = {} if gone else {name: of for name, of in row.items() if name not in identity}
    commit: Commit | None = row["_commit"]
    return RowValue(
        values=values,
        rows=row["rows"] or 0,
        cause=row["cause"],
        run=row["run"],
        batch=row["batch"],
        generation=history.generation,
        version=commit.version if commit else None,
        at=commit.at if commit else None,
        failure=row.get(FAILURE),
    )


def _ordered(values: Sequence[RowValue], runs: RunsKnown) -> list[RowValue]:
    """Those that the log no longer knows came before those that it knows."""
    known = [one for one in values if one.version is not None]
    known.sort(key=lambda one: one.version or 0)
    older = [one for one in values if one.version is None]
    if len(older) > 1:
        older = _by_runs(older, runs)
    return [*older, *known]


def _by_runs(values: list[RowValue], runs: RunsKnown) -> list[RowValue]:
    if all(one.cause == STREAM and one.batch is not None for one in values):
        return sorted(values, key=lambda one: one.batch or 0)
    started = {one.run: runs.started(one.run) for one in values}
    # Of one run, what the stream emitted is appended first; of two computations nobody knows.
    keys = [(one.run, one.cause == STREAM) for one in values]
    if None in started.values() or len(set(keys)) < len(keys):
        values = [replace(one, in_order=False) for one in values]
    return sorted(
        values,
        key=lambda one: (
            at.timestamp() if (at := started[one.run]) else 0.0, one.cause != STREAM, one.batch or 0
        ),
    )  # fmt: skip


def judged(
    values: Sequence[RowValue], publishes: Sequence[KnownPublish], runs: RunsKnown
) -> Iterator[RowValue]:
    """Whether gold ever showed them: each publish takes, of what came since the one before, the
    last value that counts. `values` are in their order."""
    shown: dict[int, KnownPublish] = {}
    before = -1
    for publish in sorted(publishes, key=lambda one: one.changes):
        taken = [
            one.version
            for one in values
            if one.version is not None
            and before < one.version <= publish.changes
            and _counts(one, publish)
        ]
        if taken:
            shown[taken[-1]] = publish
        before = publish.changes
    for number, value in enumerate(values):
        # Since a run that is known all publishes are.
        known = runs.started(value.run) is not None and not runs.unknown
        if value.version is None:
            yield _judged_by_run(value, values[number + 1 :], publishes)
        elif value.version in shown:
            by = shown[value.version].run if known else None
            yield replace(value, published=True, published_by=by)
        else:
            yield replace(value, published=False if known else None)


def _judged_by_run(
    value: RowValue, later: Sequence[RowValue], publishes: Sequence[KnownPublish]
) -> RowValue:
    """Of one whose commit is not known: a run published what it computed last, and gold's newest
    publish the last of all."""
    own = [one for one in publishes if one.run == value.run and value.run is not None]
    replaced = not value.in_order or any(one.run == value.run for one in later)
    if own and not replaced and value.cause != SEAL:
        return replace(value, published=True, published_by=value.run)
    now = any(one.run is None for one in publishes)
    return replace(value, published=True if now and not later and value.in_order else None)


def _counts(value: RowValue, publish: KnownPublish) -> bool:
    """A seal counts once gold is closed up to where it closed (`gold.row_values`)."""
    end = value.values.get("window_end")
    if value.cause != SEAL or end is None:
        return True
    return publish.close is not None and end <= publish.close


def _undone(value: RowValue, runs: RunsKnown) -> RowValue:
    for rewind in runs.rewinds:
        if value.run == rewind.run:
            return replace(value, cause="rewind")
        at = value.at or runs.started(value.run)
        if value.run in rewind.runs and at is not None and at < rewind.at:
            return replace(value, undone=rewind.id)
    return value
