"""Of which rows of bronze a row of gold is made: all of them counted, some of them shown.

By the same event times, keys and conditions as the table's operator has. A row is late by the
watermark and the close frontier of the batch of the table's query that read it, which checkpoints
and `ops/batches` tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import CheckpointUnreadable
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.ledger.copied_batches import copied_batches
from tidemark.ledger.rebuild import Publish, close_before_ms, publishes
from tidemark.operators.batches_read import batches_read
from tidemark.operators.folds.folds import Folds
from tidemark.operators.joins.in_bronze import BronzeSide, JoinIn
from tidemark.operators.joins.joins import Joins
from tidemark.operators.keys import column_named, register_rows
from tidemark.operators.operator import BRONZE, Operator, listed
from tidemark.operators.other_inputs import others_published
from tidemark.operators.sessions.sessions import Gapped
from tidemark.operators.touched import BatchRead
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.kafka_columns import PARTITION, TOPIC
from tidemark.pipeline.model import Partner, Pipeline
from tidemark.runs.contract.contract import Seed
from tidemark.sources.kinds import row_origin
from tidemark.storage.delta.commits import ingest_commits
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import EmittedNote, ReplayedNote, note_of
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse
from tidemark.story.asked import Asked, literal
from tidemark.story.known_runs import ingested_by
from tidemark.story.lines import FILE, row_places
from tidemark.story.story import SAMPLE, BatchOfRows, BronzeRow, RowsOfInput, SourceRow, cut
from tidemark.story.values import Commit, History

_SHOWN_PARTS = 20
_MICROSECOND = timedelta(microseconds=1)
# Names that parts of a source have: a file, a partition of a topic.
_PARTS = (FILE, TOPIC, PARTITION)
_ALL, _NONE = 2**62, -(2**62)
# By batch of ingest the version of bronze or rejects that has it, and the run that committed it.
Ingested = Mapping[int | None, tuple[int | None, str | None]]


@dataclass(frozen=True)
class Span:
    """The event times of a row's own rows in bronze, both included."""

    first: datetime
    last: datetime

    def holds(self, column: str) -> str:
        return f'"{column}" BETWEEN {literal(self.first)} AND {literal(self.last)}'


@dataclass(frozen=True)
class Input:
    """An input of the row's table: `name` as its operator calls it, and the pipeline whose rows it
    has."""

    name: str
    warehouse: Warehouse
    pipeline: Pipeline | Partner

    @cached_property
    def bronze(self) -> DeltaTable:
        return self.warehouse.bronze.existing()

    def origin(self, table: DeltaTable) -> list[str]:
        """The columns of bronze or rejects that say where in the source a row comes from."""
        held = schema_of(table).names
        return [one.name for one in row_origin(self.pipeline) if one.name in held]

    def ingested(self, table: DeltaTable, numbers: Iterable[int | None]) -> Ingested:
        """What is known of these batches: by the commit's note, else by the ledger."""
        batches = {one for one in numbers if one is not None}
        query = str(ingest_checkpoint(self.warehouse).query_id())
        noted = ingest_commits(table, query, min(batches) - 1) if batches else {}
        unnamed = {one for one in batches if one not in noted or noted[one].run is None}
        by_ledger = ingested_by(self.warehouse, unnamed) if unnamed else {}
        return {None: (None, None)} | {
            one: (
                noted[one].version if one in noted else None,
                by_ledger.get(one) if one in unnamed else noted[one].run,
            )
            for one in batches
        }

    def replays(self) -> pa.Table:
        """Of the rejects that were replayed, by which act, and what tells their rows of bronze."""
        table = self.warehouse.replayed.open()
        if table is None:
            return pa.table(
                {"_replay": pa.nulls(0, pa.string()), "_batch": pa.nulls(0, pa.int64())}
            )
        names = ["_replay", "_batch", *self.origin(table)]
        return dataset_of(table).to_table(columns=names).group_by(names).aggregate([])

    def replay_versions(self, replays: Collection[str]) -> dict[str, int]:
        """The versions of bronze that these acts made; without those that the log has no more."""
        found: dict[str, int] = {}
        for commit in newest_first(self.bronze) if replays else ():
            note = note_of(commit)
            if isinstance(note, ReplayedNote) and note.id in replays:
                found[note.id] = commit["version"]
                if len(found) == len(replays):
                    break
        return found

    def source_rows(
        self, table: DeltaTable, rows: Sequence[Mapping[str, Any]], time: str, ingested: Ingested
    ) -> list[SourceRow]:
        """Rows of bronze or rejects by what either says."""
        origins = [{name: row[name] for name in self.origin(table)} for row in rows]
        read_at = [row.get("_batch_time") for row in rows]
        places = row_places(self.pipeline.source, self.warehouse.options, origins, read_at)
        return [
            SourceRow(row[time], place, row["_batch"], at, ingested[row["_batch"]][1])
            for row, place, at in zip(rows, places, read_at, strict=True)
        ]


@dataclass(frozen=True)
class InBronze:
    """What is asked of the inputs for one row of a table: `operator` has its other inputs and
    lookups, of a join `other` is the right side; `histories` are those of its generations."""

    operator: Operator
    table: str
    asked: Asked
    window_end: datetime | None
    own: Input
    other: Input | None
    histories: Sequence[History]

    def stretch(self) -> Span | None:
        """None where bronze has no row of it, or its end is not known."""
        operator, start = self.operator, self.asked.start
        if not isinstance(operator, Gapped):
            end = self.asked.window_end
            return None if end is None else Span(start, end - _MICROSECOND)
        found = operator.rows_in(self.own.bronze).rows_in_bronze(self.asked.row).to_pylist()
        # What hangs together with its first row begins earlier since, or that row is gone.
        if not found or found[0]["window_start"] != start:
            return None
        if isinstance(operator, Folds):
            # An output is determined by the rows up to its time.
            return None if self.window_end is None else Span(start, self.window_end)
        return Span(start, found[0]["window_end"] - operator.gap)

    def rows(self, stretch: Span) -> Iterator[RowsOfInput]:
        """The rows of each input; of a join all of the right side that match its left rows."""
        operator, table = self.operator, self.operator.table
        left = BronzeSide(self.own.bronze, operator.event_time)
        time = column_named(schema_of(left.bronze), left.event_time).name
        found = (
            operator.rows_in(left.bronze).looked_up(self.asked.row) if operator.lookups else None
        )
        span = epoch_us(stretch.first), epoch_us(stretch.last)
        with duckdb_in_utc() as connection:
            of = operator.event_time, table.where, operator.lookups, found
            read = register_rows(connection, "read", left.rows_of([span]), *of)
            connection.register("asked", self.asked.row)
            keys = "".join(
                f' AND r."{column_named(read.schema, key).name}" IS NOT DISTINCT FROM a."{key}"'
                for key in table.group_by
            )
            mine = f"""
                SELECT r.* FROM (FROM read WHERE {stretch.holds(time)} AND {read.counts}) r
                SEMI JOIN asked a ON true {keys}
            """
            if not isinstance(operator, Joins):
                yield self._told(connection, self.own, mine, time)
                return
            assert self.other is not None
            right = BronzeSide(self.other.bronze, operator.other_event_time)
            joined = JoinIn(left, right, operator.table)
            at = column_named(schema_of(right.bronze), right.event_time).name
            connection.register("right_read", right.rows_of(joined.reached([span])))
            connection.execute(
                f"CREATE TEMP VIEW l AS SELECT *, {joined.left_columns()} FROM ({mine})"
            )
            matches = f"({joined.matches('l', 'r')})"
            r = f"(SELECT *, {joined.right_columns()} FROM right_read)"
            semi = f"SEMI JOIN {r} r ON {matches}" if operator.table.join.type == "inner" else ""
            yield self._told(connection, self.own, f"SELECT l.* FROM l {semi}", time)
            theirs = f"SELECT r.* FROM {r} r SEMI JOIN l ON {matches}"
            yield self._told(connection, self.other, theirs, at)

    def _told(
        self, connection: duckdb.DuckDBPyConnection, of: Input, sql: str, time: str
    ) -> RowsOfInput:
        """What is told of the rows that this selects."""
        # A reject that was replayed keeps its batch, and came with the replay's own commit.
        replays = of.replays()
        connection.register("replays", replays)
        same = " AND ".join(
            f'm."{one}" IS NOT DISTINCT FROM p."{one}"' for one in replays.schema.names[1:]
        )
        connection.execute(
            "CREATE OR REPLACE TEMP VIEW mine AS SELECT m.*, p._replay "
            f"FROM ({sql}) m LEFT JOIN replays p ON {same}"
        )
        came = connection.execute("SELECT DISTINCT _batch, _replay FROM mine").fetchall()
        ingested = of.ingested(of.bronze, [batch for batch, _ in came])
        replayed = of.replay_versions({replay for _, replay in came} - {None})
        versions = [
            ingested[batch][0] if replay is None else replayed.get(replay) for batch, replay in came
        ]
        late_to = [self._late_to(of.name, version) for version in versions]
        limits: dict[str, pa.Array[Any]] = {
            "_batch": pa.array([batch for batch, _ in came], pa.int64()),
            "_replay": pa.array([replay for _, replay in came], pa.string()),
            "_late_to": pa.array(late_to, pa.int64()),
        }
        connection.register("limits", pa.table(limits))
        connection.execute(
            f"""
            CREATE OR REPLACE TEMP VIEW judged AS
            SELECT m.*, epoch_us(m."{time}") <= l._late_to AS _is_late
            FROM mine m LEFT JOIN limits l
                ON m._batch = l._batch AND m._replay IS NOT DISTINCT FROM l._replay
            """
        )
        batches = connection.execute(
            f"""
            SELECT _batch, _replay, count(*), count(*) FILTER (_is_late), bool_or(_is_late IS NULL),
                min("{time}"), max("{time}")
            FROM judged GROUP BY _batch, _replay ORDER BY _batch DESC NULLS LAST, _replay
            """
        ).fetchall()
        told = tuple(
            BatchOfRows(
                batch, None if replay else ingested[batch][1], rows, None if unsure else late
            )
            for batch, replay, rows, late, unsure, *_ in batches
        )
        parts, other_parts = _parts(connection, of)
        sample, late_sample = _samples(connection, of, time, ingested)
        return RowsOfInput(
            input=of.name,
            number=sum(one.rows for one in told),
            first=min((one[-2] for one in batches), default=None),
            last=max((one[-1] for one in batches), default=None),
            late=None
            if any(one.late is None for one in told)
            else sum(one.late or 0 for one in told),
            parts=parts,
            other_parts=other_parts,
            # All of them: what is told of values and rejects is of all.
            batches=told,
            other_batches=0,
            replayed=sum(rows for _, replay, rows, *_ in batches if replay),
            sample=sample,
            late_sample=late_sample,
        )

    def _late_to(self, name: str, version: int | None) -> int | None:
        """The event time up to which rows of the row of gold were late that came in a version of an
        input; None: not known."""
        for history, query, read in self._batches if version is not None else ():
            first, last = (read.first, read.last) if name == BRONZE else read.of(name)
            if version is None or not first <= version <= last:
                continue
            if isinstance(self.operator, Joins):
                return read.watermark_ms * 1_000
            late_ms = max(read.late_ms, self._close_ms(history, query, read))
            if isinstance(self.operator, Gapped):
                return self.operator.late_us(replace(read, late_ms=late_ms))
            assert self.asked.window_end is not None
            return _ALL if epoch_us(self.asked.window_end) <= late_ms * 1_000 else _NONE
        return None

    @cached_property
    def _batches(self) -> list[tuple[History, str, BatchRead]]:
        """Each with its history and its query."""
        found, warehouse = [], self.own.warehouse
        for history in self.histories:
            checkpoint = query_checkpoint(warehouse, self.table, history.generation)
            query = str(checkpoint.query_id())
            # What a generation was computed from came late to none of its batches.
            seed = history.seed or Seed(bronze=-1)
            others = others_published(self.operator, warehouse, seed.others)
            copied = copied_batches(warehouse.batches, warehouse.places.pipeline, query, others)
            closed = self.operator.traits.closed_to_ms
            with suppress(CheckpointUnreadable):
                # Gold's frontier costs more to know, and is asked of few.
                read = batches_read(checkpoint, seed.bronze, lambda *_: 0, copied, closed, others)
                # One without a number stands for all that the checkpoint has no longer.
                found += [(history, query, one) for one in read if one.number is not None]
        return found

    def _close_ms(self, history: History, query: str, read: BatchRead) -> int:
        """Gold's close frontier that a batch ran under: its commit notes it, else gold's log."""

        def emitted(commits: Sequence[Commit]) -> Iterator[EmittedNote]:
            notes = (one.note for one in commits)
            return (one for one in notes if isinstance(one, EmittedNote) and one.query == query)

        number = read.number or 0
        commits = history.commits(
            lambda newest: any(one.batch <= number for one in emitted(newest))
        )
        noted = [one.close_ms for one in emitted(commits) if one.batch == number]
        if noted and noted[0] is not None:
            return noted[0]
        return close_before_ms(self._publishes, read.first)

    @cached_property
    def _publishes(self) -> Sequence[Publish]:
        return publishes(self.own.warehouse.gold(self.table))


def _parts(
    connection: duckdb.DuckDBPyConnection, of: Input
) -> tuple[tuple[tuple[str, int], ...], int]:
    """The parts of the source with most rows, and how many rows those of the others have."""
    names = listed(name for name in of.origin(of.bronze) if name in _PARTS)
    if not names:
        return (), 0
    found = connection.execute(
        f"SELECT {names}, count(*) AS _rows FROM mine GROUP BY {names} ORDER BY _rows DESC, {names}"
    ).fetchall()
    told = tuple(("/".join(map(str, part)), rows) for *part, rows in found[:_SHOWN_PARTS])
    return told, sum(one[-1] for one in found[_SHOWN_PARTS:])


def _samples(
    connection: duckdb.DuckDBPyConnection, of: Input, time: str, ingested: Ingested
) -> tuple[tuple[BronzeRow, ...], tuple[BronzeRow, ...]]:
    """The first rows, and the first that came late."""
    # The same ones each time, also of rows that are alike but for where they come from.
    first = f"ORDER BY {listed([time, *of.origin(of.bronze)])} LIMIT {SAMPLE}"
    every, late = (
        connection.sql(f"FROM judged {which} {first}").to_arrow_table().to_pylist()
        for which in ("", "WHERE _is_late")
    )
    held = [name for name in schema_of(of.bronze).names if not name.startswith("_")]
    rows = [*every, *late]
    told = [
        BronzeRow(
            **vars(one) | ({"run": None} if row["_replay"] else {}),
            late=row["_is_late"],
            values={name: cut(row[name]) for name in held},
        )
        for row, one in zip(rows, of.source_rows(of.bronze, rows, time, ingested), strict=True)
    ]
    return tuple(told[: len(every)]), tuple(told[len(every) :])
