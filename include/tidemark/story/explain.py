"""Gather the story of a row of gold: reads only, takes no lease, starts no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.errors import GoldNotFound, NoteUnreadable, TidemarkError
from tidemark.gold.reading import why_not_found
from tidemark.gold.state import gold_state
from tidemark.judge.exact import ExactJudge, RejectedLine
from tidemark.judge.json_text import Number
from tidemark.judge.kinds import arrow_type
from tidemark.judge.limits import TimeLimits
from tidemark.judge.rules import ColumnRule, rules_of
from tidemark.judge.values import WRONG
from tidemark.operators.joins.joins import Joins
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE, Operator, listed
from tidemark.operators.other_inputs import reading
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.recompute.differences import plain
from tidemark.recompute.predecessors import predecessors
from tidemark.runs.contract.contract import Contract, read_contract
from tidemark.runs.generations import generations
from tidemark.storage.delta.by_hand import acceptance_of, accepted_to
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.dropped_rejects import dropped_text
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.ops import own_rows
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse
from tidemark.story.asked import Asked, row_asked
from tidemark.story.in_bronze import InBronze, Input, Span
from tidemark.story.known_runs import KnownRuns
from tidemark.story.story import (
    LONGEST_TEXT,
    SAMPLE,
    AcceptedByHand,
    CheckSaid,
    Rejected,
    RejectedRow,
    RowsOfInput,
    RowValue,
    Story,
    cut,
)
from tidemark.story.values import History, values_of

# Commits of bronze and gold that are searched for what somebody accepted.
_RECENT = 500


def explain(
    pipeline: str,
    table: str,
    *,
    window: datetime | date | str,
    key: Mapping[str, Any] | None = None,
    settings: Settings | Path | str | None = None,
) -> Story:
    """The story of one row of a pipeline's gold: each value that it had, which run computed it and
    why, whether gold showed it, and of which rows of bronze it is made.

    `window` is the window's start, or any time in it: a datetime with a zone, ISO 8601 text with
    one, or a date (midnight in UTC; of local days, weeks … the day there). `key` has a value for
    each key of the table, text or of its type, None for null. `settings`: as loaded, or their file;
    default: as the command `tidemark` finds them. Raises GoldNotFound, RowUnclear where several
    rows may be meant, and NoRowNamed, a ValueError, for a time or a key that is none.
    """
    loaded = settings if isinstance(settings, Settings) else load_settings(settings)
    return story_of(find_pipeline(pipeline, loaded), loaded, table, window, key or {})


def story_of(
    pipeline: Pipeline,
    settings: Settings,
    table: str,
    window: datetime | date | str,
    key: Mapping[str, Any],
) -> Story:
    """The story of a row of a table, by the settings' root. Errors as those of `explain`."""
    warehouse = Warehouse.of(pipeline.name, settings)
    gold = warehouse.gold(table).open() if table in pipeline.tables else None
    if gold is None:
        raise GoldNotFound(why_not_found(pipeline.name, table, "", settings))
    return _Gathering(pipeline, settings, warehouse, table, gold).story(window, key)


@dataclass(frozen=True)
class _Gathering:
    """One table, whose rows somebody asks for."""

    pipeline: Pipeline
    settings: Settings
    warehouse: Warehouse
    table: str
    gold: DeltaTable

    @cached_property
    def generation(self) -> int:
        return gold_state(self.gold).generation

    @cached_property
    def contracts(self) -> Mapping[int, Contract | None]:
        """Of all generations, oldest first."""
        place, options = self.warehouse.places.contract, self.warehouse.options
        known = generations(self.warehouse, self.table)
        return {one: read_contract(place(self.table, one), options) for one in known}

    @cached_property
    def made_by(self) -> Pipeline:
        """The pipeline by which gold's rows are made: its file may have been changed since."""
        contract = self.contracts.get(self.generation)
        return self.pipeline if contract is None else contract.pipeline

    @cached_property
    def operator(self) -> Operator:
        return operator_of(self.made_by, self.table)

    @cached_property
    def histories(self) -> tuple[History, ...]:
        """Of all generations that have one, oldest first."""
        found = []
        for generation, contract in self.contracts.items():
            changes = self.warehouse.changes(self.table, generation).open()
            if changes is None:
                continue
            identity: Mapping[str, str] = {name: name for name in self.operator.identity}
            if generation != self.generation and contract is not None:
                former = operator_of(contract.pipeline, self.table)
                identity = predecessors(former, self.operator).identity or {}
            if not set(identity.values()) <= set(schema_of(changes).names):
                identity = {}
            seed = contract.seed if contract else None
            found.append(History(generation, changes, identity, seed))
        return tuple(found)

    def story(self, window: datetime | date | str, key: Mapping[str, Any]) -> Story:
        histories = sorted(
            (one for one in self.histories if one.identity),
            key=lambda one: (one.generation != self.generation, -one.generation),
        )
        changes = [(one.changes, one.identity) for one in histories]
        asked = row_asked(self.operator, self.gold, changes, window, key)
        runs = KnownRuns(self.warehouse, self.table)
        values, notes = values_of(self.histories, asked, runs, gold_state(self.gold))
        held = self._held(asked)
        told = [held or {}, *(one.values for one in reversed(values))]
        end = asked.window_end or next(
            (one["window_end"] for one in told if "window_end" in one), None
        )
        bronze, rejected = self._rows(asked, end, notes)
        values = [_with_late(one, bronze) for one in values]
        notes += self._differences(held, bronze, values)
        accepted = tuple(self._accepted(notes))
        writers = {one.run for one in values} | {held["updated_by"] if held else None}
        return Story(
            pipeline=self.pipeline.name,
            table=self.table,
            rows_are=self.operator.table.rows_are,
            window_start=asked.start,
            window_end=end,
            key=asked.key,
            gold=held,
            gold_version=self.gold.version(),
            values=tuple(values),
            # What is told of values and rejects is of all batches.
            bronze=tuple(map(_with_newest_batches, bronze)),
            rejected=rejected,
            checks=tuple(self._checks({one for one in writers if one is not None})),
            accepted=accepted,
            notes=tuple(notes),
        )

    def _held(self, asked: Asked) -> dict[str, Any] | None:
        """What gold shows of the row."""
        identity = {name: name for name in self.operator.identity}
        day = f"window_date = DATE '{asked.start.date()}'"
        for row in asked.found_in(self.gold, identity, day, 1):
            return {n: of for n, of in row.items() if n not in identity and n != "window_date"}
        return None

    def _rows(
        self, asked: Asked, end: datetime | None, notes: list[str]
    ) -> tuple[tuple[RowsOfInput, ...], Rejected | None]:
        own = Input(BRONZE, self.warehouse, self.pipeline)
        bronze: tuple[RowsOfInput, ...] = ()
        stretch: Span | None = None
        try:
            operator, other = reading(self.operator, self.warehouse), None
            if isinstance(operator, Joins):
                partner = operator.table.join.other
                place = Warehouse.of(partner, self.settings)
                other = Input(operator.other, place, self.made_by.partners[partner])
            of = InBronze(operator, self.table, asked, end, own, other, self.histories)
            stretch = of.stretch()
            if stretch is not None:
                bronze = tuple(of.rows(stretch))
        except NoteUnreadable:
            raise
        except TidemarkError as error:
            notes.append(f"Which rows of bronze it is made of cannot be told: {error}")
        notes += [
            f"{rows.replayed:,} rows of {rows.input} came by a replay of rejects, and not with the "
            "batch that rejected them."
            for rows in bronze
            if rows.replayed
        ]
        if stretch is None and asked.window_end is None:
            notes.append(
                "Bronze has none that starts so now: its rows are part of another one, or gone."
            )
        if stretch is None and end is not None:
            stretch = Span(asked.start, end)
        rejects = self.warehouse.rejects.open()
        if stretch is None or rejects is None:
            return bronze, None
        if gone := dropped_text(rejects):
            notes.append(gone)
        batches = [one.batch for rows in bronze[:1] for one in rows.batches
                   if one.batch is not None]  # fmt: skip
        key = {name: asked.key[name] for name in self.operator.table.group_by}
        return bronze, rejected_in(own, rejects, self.pipeline, key, stretch, batches)

    def _differences(
        self,
        held: Mapping[str, Any] | None,
        bronze: Sequence[RowsOfInput],
        values: Sequence[RowValue],
    ) -> Iterator[str]:
        if not self.operator.traits.counts_rows or isinstance(self.operator, Joins) or not bronze:
            return
        now, shown = bronze[0].number, held["rows"] if held else 0
        last = values[-1].rows if values else 0
        if now != shown:
            waits = f" The newest value computed has {last:,}." if last != shown else ""
            yield (
                f"Bronze has {now:,} rows of it now, gold shows {shown:,}.{waits} Rows of a "
                "run that is not published, or of an open window that gold does not show, are in "
                "no gold yet; else `tidemark audit` says what differs."
            )

    def _checks(self, writers: set[str]) -> Iterator[CheckSaid]:
        """What was said last of each run, and what was overridden."""
        names = [one.name for one in fields(CheckSaid)]
        written = ds.field("run").isin(pa.array(sorted(writers), pa.string()))
        rows = own_rows(self.warehouse.quality.open(), self.pipeline.name, names, written)
        said = sorted(
            (CheckSaid(**row) for row in rows if row["table"] in (None, self.table)),
            key=lambda one: one.time,
        )
        last = {(one.run, one.accepted is None): one.time for one in said}
        return (one for one in said if one.time == last[one.run, one.accepted is None])

    def _accepted(self, notes: list[str]) -> Iterator[AcceptedByHand]:
        for name, table in ((BRONZE, self.warehouse.bronze.open()), ("gold", self.gold)):
            if table is None:
                continue
            told = -1
            for commit in table.history(_RECENT):
                if (note := acceptance_of(commit)) is not None:
                    told = max(told, note.up_to)
                    at = instant_of(int(commit.get("timestamp") or 0))
                    yield AcceptedByHand(name, note.up_to, note.reason, note.by, at)
            if (up_to := accepted_to(table)) > told:
                notes.append(
                    f"Changes by hand of {name} up to version {up_to} were accepted; by whom, its "
                    f"newest {_RECENT} commits do not tell."
                )


def _with_late(value: RowValue, bronze: Sequence[RowsOfInput]) -> RowValue:
    """With how many rows came late by the run that computed it."""
    batches = [one for rows in bronze for one in rows.batches if value.run and one.run == value.run]
    # Late rows that no known run ingested may be some of its own.
    unknown = (one.late for rows in bronze for one in rows.batches if one.run is None)
    if not bronze or any(one.late is None for one in batches) or any(unknown):
        return value
    return replace(value, late=sum(one.late or 0 for one in batches))


def _with_newest_batches(rows: RowsOfInput) -> RowsOfInput:
    others = max(len(rows.batches) - SAMPLE, 0)
    return replace(rows, batches=rows.batches[:SAMPLE], other_batches=others)


# So many are looked at for the keys, and of each so much text.
_LOOKED_AT = 1_000
_LONGEST_RAW = 64 * 1024


def rejected_in(
    of: Input, rejects: DeltaTable, pipeline: Pipeline, key: Mapping[str, Any], stretch: Span,
    batches: Sequence[int],
) -> Rejected:  # fmt: skip
    """Those whose event time lies in the stretch, those of the key first. `batches` of ingest
    brought the row's rows."""
    within = stretch.holds("event_time")
    order = listed(["event_time", *of.origin(rejects)])
    with duckdb_in_utc() as connection:
        timed = dataset_of(rejects, within.replace("TIMESTAMPTZ ", ""))
        connection.register("timed", timed)
        reasons = connection.execute(
            f"SELECT reason, count(*) FROM timed WHERE {within} GROUP BY 1 ORDER BY 1"
        ).fetchall()
        rows = connection.sql(
            f"""
            SELECT * REPLACE (CASE WHEN strlen(raw) <= {_LONGEST_RAW} THEN raw
                ELSE left(raw, {LONGEST_TEXT}) || '…' END AS raw)
            FROM timed WHERE {within} ORDER BY {order} LIMIT {_LOOKED_AT}
            """
        ).to_arrow_table().to_pylist()  # fmt: skip
        without_time = 0
        if batches:
            theirs = f"_batch >= {min(batches)} AND _batch <= {max(batches)}"
            connection.register("brought", dataset_of(rejects, theirs))
            connection.register("batches", pa.table({"_batch": pa.array(batches, pa.int64())}))
            ((without_time,),) = connection.execute(
                "SELECT count(*) FROM brought SEMI JOIN batches USING (_batch) "
                "WHERE event_time IS NULL"
            ).fetchall()
    found = [*zip(_have((row["raw"] for row in rows), pipeline, key), rows, strict=True)]
    # Those of which nobody can tell before those of other keys, each in their order.
    found.sort(key=lambda one: {True: 0, None: 1, False: 2}[one[0]])
    found = found[:SAMPLE]
    of_key = [one for one, _ in found]
    rows = [row for _, row in found]
    ingested = of.ingested(rejects, (row["_batch"] for row in rows))
    sample = tuple(
        RejectedRow(**vars(one), reason=row["reason"], detail=cut(row["detail"] or ""),
                    raw=cut(row["raw"]), of_key=has)
        for one, row, has in zip(
            of.source_rows(rejects, rows, "event_time", ingested), rows, of_key, strict=True
        )
    )  # fmt: skip
    return Rejected(dict(reasons), without_time, sample)


def _have(
    raws: Iterable[str | None], pipeline: Pipeline, key: Mapping[str, Any]
) -> Iterator[bool | None]:
    """Have the texts of rejected lines the key? None where one of it is no column of the source, or
    nobody can read the line."""
    rules = rules_of(pipeline)
    judge, columns = ExactJudge(rules, TimeLimits(0, 0)), {one.name: one for one in rules.columns}
    can_tell = key.keys() <= columns.keys()

    def is_same(column: ColumnRule, part: Any, value: Any) -> bool:
        found = None if part is None else judge.readers[column.name](part)
        if found is not WRONG:
            return bool(pa.scalar(found, arrow_type(column.kind)).as_py() == value)
        # Of another type than its column's: that may be why the line was rejected.
        return (part.decode() if isinstance(part, Number) else str(part)) == str(plain(value))

    for raw in raws:
        fields = judge.read(raw.encode()) if raw is not None and can_tell else None
        if fields is None or isinstance(fields, RejectedLine):
            yield None
        else:
            named = ((columns[name], value) for name, value in key.items())
            yield all(is_same(one, fields.get(one.key), value) for one, value in named)
