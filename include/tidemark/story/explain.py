"""Gather the story of a row of gold: reads only, takes no lease, starts no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from tidemark.errors import GoldNotFound, NoteUnreadable, TidemarkError
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.gold.state import gold_state
from tidemark.operators.joins.joins import Joins
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE, Operator
from tidemark.operators.other_inputs import reading
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.load import find_pipeline
from tidemark.pipeline.model import FilesSource, Pipeline
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.recompute.predecessors import predecessors
from tidemark.runs.contract.contract import Contract, read_contract
from tidemark.runs.generations import generations
from tidemark.sources.kinds import row_origin
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import AcceptedNote, note_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse
from tidemark.story.asked import Asked, row_asked
from tidemark.story.in_bronze import InBronze, Input, LateBy, Span
from tidemark.story.lines import Lines
from tidemark.story.rejected import rejected_in
from tidemark.story.runs_known import RunsKnown
from tidemark.story.story import (
    AcceptedByHand,
    CheckSaid,
    Rejected,
    RowsOfInput,
    RowValue,
    Story,
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
    rows may be meant, and ValueError for a time or a key that is none.
    """
    loaded = settings
    if not isinstance(loaded, Settings):
        loaded = load_settings(None if loaded is None else Path(loaded))
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
        raise GoldNotFound(_no_gold(pipeline, table, warehouse))
    return _Gathering(pipeline, settings, warehouse, table, gold).story(window, key)


def _no_gold(pipeline: Pipeline, table: str, warehouse: Warehouse) -> str:
    if table in pipeline.tables:
        return (
            f"There is no gold table at {warehouse.gold(table).uri}: {pipeline.name} has not run "
            f"yet. `tidemark run {pipeline.name}` makes it."
        )
    near = nearest(table, tuple(pipeline.tables))
    hint = f" Did you mean `{near}`?" if near else ""
    return (
        f"{pipeline.name} has no table `{table}`.{hint} Its tables: {', '.join(pipeline.tables)}."
    )


@dataclass(frozen=True)
class _Gathering:
    """One table, whose rows somebody asks for."""

    pipeline: Pipeline
    settings: Settings
    warehouse: Warehouse
    table: str
    gold: DeltaTable

    @cached_property
    def runs(self) -> RunsKnown:
        return RunsKnown(self.warehouse, self.table)

    @cached_property
    def generation(self) -> int:
        return gold_state(self.gold).generation

    def _contract(self, generation: int) -> Contract | None:
        place = self.warehouse.places.contract(self.table, generation)
        return read_contract(place, self.warehouse.options)

    @cached_property
    def made_by(self) -> Pipeline:
        """The pipeline by which gold's rows are made: its file may have been changed since."""
        contract = self._contract(self.generation)
        return self.pipeline if contract is None else contract.pipeline

    @cached_property
    def operator(self) -> Operator:
        return operator_of(self.made_by, self.table)

    @cached_property
    def histories(self) -> tuple[History, ...]:
        """Of all generations that have one, oldest first."""
        return tuple(self._histories())

    def _histories(self) -> Iterator[History]:
        for generation in generations(self.warehouse, self.table):
            changes = self.warehouse.changes(self.table, generation).open()
            if changes is None:
                continue
            contract = self._contract(generation)
            identity: Mapping[str, str] = {name: name for name in self.operator.identity}
            if generation != self.generation and contract is not None:
                former = operator_of(contract.pipeline, self.table)
                identity = predecessors(former, self.operator).identity or {}
            held = schema_of(changes).names
            if not set(identity.values()) <= set(held):
                identity = {}
            yield History(generation, changes, identity, contract.seed if contract else None)

    def story(self, window: datetime | date | str, key: Mapping[str, Any]) -> Story:
        current = [one for one in self.histories if one.generation == self.generation]
        changes = current[0].changes if current else None
        asked = row_asked(self.operator, self.gold, changes, window, key)
        notes: list[str] = []
        values = self._values(asked, notes)
        held = self._held(asked)
        end = asked.window_end or self._end(held, values)
        bronze, rejected = self._rows(asked, end, notes)
        values = [_with_late(one, bronze) for one in values]
        notes += self._differences(held, bronze, values)
        writers = {one.run for one in values if one.run is not None}
        if held is not None:
            writers.add(held["updated_by"])
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
            bronze=bronze,
            rejected=rejected,
            checks=tuple(self._checks(writers)),
            accepted=tuple(self._accepted()),
            notes=tuple(notes),
        )

    def _values(self, asked: Asked, notes: list[str]) -> list[RowValue]:
        own = [one for one in self.histories if one.identity]
        notes += [
            f"Generation {other.generation} had rows by another window, other keys or another "
            "condition: none of its values is one of this row."
            for other in self.histories
            if not other.identity
        ]
        values, unknown = values_of(own, self.operator, asked, self.runs, gold_state(self.gold))
        notes += unknown
        if not self.histories:
            notes.append("The history of the table is gone: which values came before, nobody knows")
        return values

    def _held(self, asked: Asked) -> dict[str, Any] | None:
        """What gold shows of the row."""
        day, start = asked.start.date(), asked.start.isoformat()
        with duckdb_in_utc() as connection:
            connection.register("gold", dataset_of(self.gold, f"window_date = DATE '{day}'"))
            connection.register("asked", asked.row)
            same = " AND ".join(
                f'g."{name}" IS NOT DISTINCT FROM a."{name}"' for name in self.operator.identity
            )
            found = connection.sql(
                f"""
                SELECT g.* FROM (FROM gold WHERE window_start = TIMESTAMPTZ '{start}') g
                SEMI JOIN asked a ON {same} LIMIT 1
                """
            ).to_arrow_table()
        identity = (*self.operator.identity, "window_date")
        for row in found.to_pylist():
            return {name: value for name, value in row.items() if name not in identity}
        return None

    def _end(self, held: Mapping[str, Any] | None, values: Sequence[RowValue]) -> datetime | None:
        """Of rows that end when they do: as gold has it, else as its newest value has."""
        told = [held or {}, *(one.values for one in reversed(values))]
        return next((one["window_end"] for one in told if "window_end" in one), None)

    def _input(self, name: str, warehouse: Warehouse, pipeline: Any, runs: RunsKnown) -> Input:
        return Input(
            name,
            warehouse.bronze.existing(),
            pipeline.source.event_time.column,
            row_origin(pipeline),
            str(ingest_checkpoint(warehouse).query_id()),
            runs,
        )

    def _rows(
        self, asked: Asked, end: datetime | None, notes: list[str]
    ) -> tuple[tuple[RowsOfInput, ...], Rejected | None]:
        own = self._input(BRONZE, self.warehouse, self.pipeline, self.runs)
        bronze: tuple[RowsOfInput, ...] = ()
        stretch: Span | None = None
        try:
            operator, other = reading(self.operator, self.warehouse), None
            if isinstance(operator, Joins):
                partner = operator.table.join.other
                place = Warehouse.of(partner, self.settings)
                runs = RunsKnown(place, "")
                model = self.made_by.partners[partner]
                other = self._input(operator.other, place, model, runs)
            late_by = LateBy(operator, self.warehouse, self.table, self.histories)
            of = InBronze(operator, asked, end, own, other, late_by)
            stretch = of.stretch()
            if stretch is not None:
                bronze = of.rows(stretch)
        except NoteUnreadable:
            raise
        except TidemarkError as error:
            notes.append(f"Which rows of bronze it is made of cannot be told: {error}")
        if stretch is None and asked.window_end is None:
            notes.append(
                "Bronze has none that starts so now: its rows are part of another one, or gone."
            )
        if stretch is None and end is not None:
            stretch = Span(asked.start, end)
        rejected = None
        rejects = self.warehouse.rejects.open()
        if stretch is not None and rejects is not None:
            batches = [one.batch for rows in bronze[:1] for one in rows.batches
                       if one.batch is not None]  # fmt: skip
            rejected = rejected_in(
                own, rejects, self.pipeline, self.operator, asked, stretch, batches
            )
        return self._with_lines(bronze, rejected)

    def _with_lines(
        self, bronze: tuple[RowsOfInput, ...], rejected: Rejected | None
    ) -> tuple[tuple[RowsOfInput, ...], Rejected | None]:
        source = self.pipeline.source
        if not isinstance(source, FilesSource):
            return bronze, rejected
        lines = Lines(source, self.settings.storage_options)
        of_files = [one for one in bronze if one.input == BRONZE]
        for one in of_files:
            lines.ask([*one.late_sample, *one.sample])
        if rejected is not None:
            lines.ask(rejected.sample)
        told = tuple(
            replace(one, sample=lines.told(one.sample), late_sample=lines.told(one.late_sample))
            if one.input == BRONZE else one
            for one in bronze
        )  # fmt: skip
        if rejected is not None:
            rejected = replace(rejected, sample=lines.told(rejected.sample))
        return told, rejected

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
        quality = self.warehouse.quality.open()
        if quality is None or not writers:
            return
        known = dataset_of(quality, f"pipeline = '{self.pipeline.name}'")
        own = (ds.field("pipeline") == self.pipeline.name) & ds.field("run").isin(sorted(writers))
        rows = [
            row
            for row in known.to_table(filter=own).sort_by("time").to_pylist()
            if row["table"] in (None, self.table)
        ]
        last: dict[tuple[str, bool], datetime] = {}
        for row in rows:
            last[row["run"], row["accepted"] is not None] = row["time"]
        names = list(CheckSaid.__dataclass_fields__)
        for row in rows:
            if row["time"] == last[row["run"], row["accepted"] is not None]:
                yield CheckSaid(**{name: row[name] for name in names})

    def _accepted(self) -> Iterator[AcceptedByHand]:
        for name, table in ((BRONZE, self.warehouse.bronze.open()), ("gold", self.gold)):
            for commit in table.history(_RECENT) if table is not None else ():
                note = note_of(commit)
                if isinstance(note, AcceptedNote):
                    at = instant_of(int(commit.get("timestamp") or 0))
                    yield AcceptedByHand(name, note.up_to, note.reason, note.by, at)


def _with_late(value: RowValue, bronze: Sequence[RowsOfInput]) -> RowValue:
    """With how many rows came late by the run that computed it."""
    batches = [one for rows in bronze for one in rows.batches if value.run and one.run == value.run]
    if not bronze or any(one.late is None for one in batches):
        return value
    return replace(value, late=sum(one.late or 0 for one in batches))
