"""Which values a row of gold had, by the histories of all generations: in their order, and whether
gold ever showed them.

A row of `changes` says which run computed it and why. What came after what is told by the versions
of the commits: a note of each says whose rows it has, so that no other row has to be read. Of what
the log has no longer, runs tell it, or nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tidemark.gold.plan import GoldState
from tidemark.ledger.ledger import STREAM
from tidemark.operators.repaired import NOT_OF_GOLD, SEAL
from tidemark.pipeline.instants import instant_of
from tidemark.runs.contract.contract import Seed
from tidemark.runs.generations import RETRACT
from tidemark.storage.delta.history import FAILURE
from tidemark.storage.delta.notes import EmittedNote, Note, RecomputedNote, note_of
from tidemark.story.asked import Asked
from tidemark.story.known_runs import KnownPublish, KnownRuns
from tidemark.story.story import RowValue

_RECENT = 50
# Of one row, the newest; those before are only counted.
MOST_VALUES = 1_000
_VERSION, _TIME, _KIND = "_commit_version", "_commit_timestamp", "_change_type"
_BESIDE = {"cause", "generation", "run", "batch", "rows", FAILURE, _VERSION, _TIME, _KIND}


@dataclass(frozen=True)
class Commit:
    """A commit of a history: its version, when it was made, and what it says of itself."""

    version: int
    at: datetime
    note: Note | None

    @property
    def holds(self) -> Hashable:
        """What tells its rows from those of other commits: of the stream a batch, else why and by
        which run they were computed; a run that was given twice may have two."""
        if isinstance(self.note, RecomputedNote):
            return self.note.cause, self.note.run
        return self.note.batch if isinstance(self.note, EmittedNote) else None


@dataclass(frozen=True)
class History:
    """The `changes` of a generation. `identity`: what it calls the columns of the row's identity,
    empty where its rows are others. `seed`: what it was computed from, None for the first one."""

    generation: int
    changes: DeltaTable
    identity: Mapping[str, str]
    seed: Seed | None

    def commits(self, are_enough: Callable[[Sequence[Commit]], bool]) -> Sequence[Commit]:
        """Its commits, the newest first: the last ones where these are enough, else all."""
        return self._newest if are_enough(self._newest) else self._all

    @cached_property
    def _newest(self) -> Sequence[Commit]:
        return self._commits(_RECENT)

    @cached_property
    def _all(self) -> Sequence[Commit]:
        return self._commits(None)

    def _commits(self, limit: int | None) -> Sequence[Commit]:
        return [
            Commit(int(one["version"]), instant_of(int(one.get("timestamp") or 0)), note_of(one))
            for one in self.changes.history(limit)
        ]


def values_of(
    histories: Sequence[History], asked: Asked, runs: KnownRuns, gold: GoldState
) -> tuple[list[RowValue], list[str]]:
    """All values, those of former generations first, and sentences on what is not known."""
    found, notes = list[RowValue](), list[str]()
    if not histories:
        notes.append("The history of the table is gone: which values came before, nobody knows")
    for history in histories:
        if not history.identity:
            notes.append(
                f"Generation {history.generation} had rows by another window, other keys or "
                "another condition: none of its values is one of this row."
            )
            continue
        which = ", ".join(f"'{cause}'" for cause in NOT_OF_GOLD)
        # All of them: which are the newest their commits tell.
        rows = asked.found_in(history.changes, history.identity, f"cause NOT IN ({which})", None)
        if len(rows) > MOST_VALUES:
            notes.append(
                f"Generation {history.generation} has {len(rows):,} values of the row; the newest "
                f"{MOST_VALUES:,} of these are told."
            )
        values = [_value(row, history) for row in _with_commits(rows, history, asked)]
        # Those that the log no longer knows came before those that it knows.
        older = [one for one in values if one.version is None]
        known = sorted(
            (one for one in values if one.version is not None), key=lambda one: one.version or 0
        )
        if older:
            notes.append(
                f"The log of generation {history.generation} has been cleaned since some of its "
                "values came: what came after what is told by their runs, where these are known."
            )
        known_to = (one for one in runs.publishes if one is not None)
        publishes = [one for one in known_to if one.generation == history.generation]
        if gold.generation == history.generation:
            close = instant_of(gold.close_ms)
            publishes.append(KnownPublish(None, gold.generation, gold.changes, close))
        acts = {*runs.retractions, *(one["run"] for one in runs.rewinds)}
        taken_out = next((one.run for one in publishes if one.run in acts), None)
        if not rows and taken_out and _last_rows(found, runs):
            # A generation of such an act has no row of what is gone by it.
            gone = RowValue({}, 0, RETRACT, taken_out, None, history.generation)
            at = runs.started(taken_out)
            found.append(replace(gone, at=at, published=True, published_by=taken_out))
        newest = [*_by_runs(older, runs), *known][-MOST_VALUES:]
        found += judged(newest, publishes, runs)
    return [_by_acts(one, runs) for one in found], notes


def _last_rows(values: Sequence[RowValue], runs: KnownRuns) -> int:
    """Of how many rows the last of these values is that no act has taken back."""
    told = (_by_acts(one, runs) for one in reversed(values))
    return next((one.rows for one in told if one.undone is None), 0)


def _with_commits(
    rows: Sequence[dict[str, Any]], history: History, asked: Asked
) -> Iterator[dict[str, Any]]:
    """Each with the commit that has it, as the feed of changes tells it, where the log does."""
    by_key: dict[Hashable, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_key[_key(row)].append(row)
    commits: dict[Hashable, list[Commit]] = defaultdict(list)
    for one in history.commits(lambda newest: by_key.keys() <= {one.holds for one in newest}):
        commits[one.holds].append(one)
    for key, own in by_key.items():
        has = commits[key]
        if len(has) > 1:
            # A run was given twice: the feed, where it is still there, says what came with which.
            with suppress(DeltaError, OSError, pa.ArrowException, duckdb.Error):
                own = [
                    {**row, _TIME: one.at}
                    for one in has
                    for row in _fed(history, one.version, asked)
                ]
        elif has:
            own = [{**row, _VERSION: has[0].version, _TIME: has[0].at} for row in own]
        yield from own


def _key(row: Mapping[str, Any]) -> Hashable:
    """What its commit holds."""
    by_batch = row["cause"] == STREAM or (row["batch"] is not None and row["batch"] < 0)
    return row["batch"] if by_batch else (row["cause"], row["run"])


def _fed(history: History, version: int, asked: Asked) -> list[dict[str, Any]]:
    feed = history.changes.load_cdf(starting_version=version, ending_version=version)
    rows = pa.RecordBatchReader.from_stream(feed)
    return asked.found_in(rows, history.identity, "true", MOST_VALUES)


def _value(row: Mapping[str, Any], history: History) -> RowValue:
    beside = {*history.identity.values(), *_BESIDE}
    gone = not row["rows"] or row.get(FAILURE) is not None
    return RowValue(
        values={} if gone else {name: of for name, of in row.items() if name not in beside},
        rows=row["rows"] or 0,
        cause=row["cause"],
        run=row["run"],
        batch=row["batch"],
        generation=history.generation,
        version=row.get(_VERSION),
        at=row.get(_TIME),
        failure=row.get(FAILURE),
    )


def _by_runs(values: Sequence[RowValue], runs: KnownRuns) -> list[RowValue]:
    """Those whose commits are not known, in the order of their runs, or of the stream's batches."""
    of_stream = all(one.cause == STREAM and one.batch is not None for one in values)
    started = {one.run: runs.started(one.run) for one in values}
    # Of one run, what the stream emitted is appended first; of two computations nobody knows.
    places = {(one.run, one.cause == STREAM) for one in values}
    sure = of_stream or (None not in started.values() and len(places) == len(values))

    def order(one: RowValue) -> tuple[Any, ...]:
        at = None if of_stream else started[one.run]
        return at.timestamp() if at else 0.0, one.cause != STREAM, one.batch or 0

    return sorted((replace(one, in_order=sure or len(values) < 2) for one in values), key=order)


def judged(
    values: Sequence[RowValue], publishes: Sequence[KnownPublish], runs: KnownRuns
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
        if value.version is None:
            yield _judged_by_run(value, values[number + 1 :], publishes)
            continue
        # Since a run that is known all publishes are.
        known = runs.started(value.run) is not None and None not in runs.publishes
        by = shown.get(value.version)
        published = True if by else False if known else None
        yield replace(value, published=published, published_by=by.run if by and known else None)


def _judged_by_run(
    value: RowValue, later: Sequence[RowValue], publishes: Sequence[KnownPublish]
) -> RowValue:
    """Of one whose commit is not known: a run published what it computed last, and gold's newest
    publish the last of all."""
    own = any(one.run == value.run for one in publishes if one.run is not None)
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


def _by_acts(value: RowValue, runs: KnownRuns) -> RowValue:
    """The value with what is known of the act that computed it, and of one that took it back."""
    by, reason = runs.reasons.get(value.run or "", (None, None))
    value = replace(value, by=by, reason=reason)
    if value.run in runs.retractions:
        return replace(value, cause=RETRACT)
    for rewind in runs.rewinds:
        if value.run == rewind["run"]:
            return replace(value, cause="rewind")
        at = value.at or runs.started(value.run)
        if value.run in (rewind["runs"] or ()) and at is not None and at < rewind["time"]:
            return replace(value, undone=rewind["id"])
    return value
