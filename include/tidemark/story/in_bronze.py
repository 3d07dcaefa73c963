"""Of which rows of bronze a row of gold is made: all of them counted, some of them shown.

By the same event times, keys and conditions as the table's operator has. A row is late by the
watermark and the close frontier of the batch of the table's query that read it, which checkpoints
and `ops/batches` tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Dataset

from tidemark.errors import CheckpointUnreadable
from tidemark.gold.checkpoints import query_checkpoint
from tidemark.ledger.copied_batches import copied_batches
from tidemark.ledger.rebuild import Publish, close_before_ms, publishes
from tidemark.operators.batches_read import batches_read
from tidemark.operators.folds.folds import Folds
from tidemark.operators.joins.joins import Joins
from tidemark.operators.keys import column_named, register_rows
from tidemark.operators.operator import BRONZE, Operator, listed
from tidemark.operators.other_inputs import others_published
from tidemark.operators.sessions.sessions import Gapped
from tidemark.operators.touched import BatchRead
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.kafka_columns import PARTITION, TOPIC
from tidemark.pipeline.model import JoinTable
from tidemark.runs.contract.contract import Seed
from tidemark.sources.source import OriginColumn
from tidemark.storage.delta.commits import close_frontiers
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.delta.notes import IngestNote, note_of
from tidemark.storage.delta.surviving_commits import surviving_commits
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.storage.warehouse import Warehouse
from tidemark.story.asked import Asked
from tidemark.story.runs_known import RunsKnown
from tidemark.story.story import BatchOfRows, BronzeRow, RowPlace, RowsOfInput
from tidemark.story.values import History

SAMPLE = 50
LONGEST_TEXT = 200
_SHOWN_PARTS = 20
_RECENT = 50
_MICROSECOND = timedelta(microseconds=1)
# Names that parts of a source have: a file, a partition of a topic.
_PARTS = ("_file", TOPIC, PARTITION)
_ALL, _NONE = 2**62, -(2**62)


@dataclass(frozen=True)
class Span:
    """The event times of a row's own rows in bronze, both included."""

    first: datetime
    last: datetime


@dataclass(frozen=True)
class Ingested:
    """A batch of ingest: the version of bronze that has it, and the run that committed it."""

    version: int | None
    run: str | None


@dataclass(frozen=True)
class Input:
    """An input of the row's table: `name` as its operator calls it, its bronze, what pipeline its
    rows come by (`ingest` is the id of that query), and where these say that they come from."""

    name: str
    bronze: DeltaTable
    event_time: str
    origin: Sequence[OriginColumn]
    ingest: str
    runs: RunsKnown


@dataclass(frozen=True)
class LateBy:
    """Which batches of the table's queries read which versions of its inputs, as far as checkpoints
    and `ops/batches` tell. `histories` are those of the generations, oldest first."""

    operator: Operator
    warehouse: Warehouse
    table: str
    histories: Sequence[History]

    def of(self, name: str, version: int) -> BatchRead | None:
        """The batch that read a version of an input first; None where that is not told."""
        for one in self._batches:
            first, last = (one.first, one.last) if name == BRONZE else one.of(name)
            if first <= version <= last:
                return one
        return None

    @cached_property
    def _batches(self) -> tuple[BatchRead, ...]:
        # One without a number stands for all that the checkpoint has no longer.
        every = (one for history in self.histories for one in self._read(history))
        return tuple(one for one in every if one.number is not None)

    def _read(self, history: History) -> Sequence[BatchRead]:
        checkpoint = query_checkpoint(self.warehouse, self.table, history.generation)
        query, pipeline = str(checkpoint.query_id()), self.warehouse.places.pipeline
        noted = close_frontiers(history.changes, query, -1)

        def close_ms(batch: int | None, first: int) -> int:
            known = None if batch is None else noted.get(batch)
            return close_before_ms(self._publishes, first) if known is None else known

        # What a generation was computed from came late to none of its batches.
        seed = history.seed or Seed(bronze=-1)
        others = others_published(self.operator, self.warehouse, seed.others)
        try:
            copied = copied_batches(self.warehouse.batches, pipeline, query, others)
            closed = self.operator.traits.closed_to_ms
            return batches_read(checkpoint, seed.bronze, close_ms, copied, closed, others)
        except CheckpointUnreadable:
            return ()

    @cached_property
    def _publishes(self) -> Sequence[Publish]:
        return publishes(self.warehouse.gold(self.table))


def ingested(of: Input, table: DeltaTable, batches: Iterable[int]) -> dict[int, Ingested]:
    """Which commit of a table of an input (bronze, rejects) has each of these batches of ingest,
    and by which run: by its note, else by the ledger."""
    wanted, found = set(batches), dict[int, Ingested]()
    for limit in (_RECENT, None) if wanted else ():
        for commit in surviving_commits(table.history(limit)):
            note = note_of(commit)
            if isinstance(note, IngestNote) and note.query == of.ingest and note.batch in wanted:
                found[note.batch] = Ingested(int(commit["version"]), note.run)
        if wanted <= found.keys():
            break
    unnamed = [one for one in wanted if one not in found or found[one].run is None]
    by_ledger = of.runs.ingested_by(unnamed) if unnamed else {}
    for batch in unnamed:
        version = found[batch].version if batch in found else None
        found[batch] = Ingested(version, by_ledger.get(batch))
    return found


@dataclass(frozen=True)
class InBronze:
    """What is asked of the inputs for one row: `operator` has its other inputs and lookups."""

    operator: Operator
    asked: Asked
    window_end: datetime | None
    own: Input
    other: Input | None
    late_by: LateBy

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

    def rows(self, stretch: Span) -> tuple[RowsOfInput, ...]:
        """The rows of each input."""
        operator, own = self.operator, self.own
        schema = schema_of(own.bronze)
        time = column_named(schema, own.event_time).name
        found = operator.rows_in(own.bronze).looked_up(self.asked.row) if operator.lookups else None
        with duckdb_in_utc() as connection:
            of = operator.event_time, operator.table.where, operator.lookups, found
            read = register_rows(connection, "read", _of_days(own, stretch), *of)
            connection.register("asked", self.asked.row)
            keys = "".join(
                f' AND r."{column_named(read.schema, key).name}" IS NOT DISTINCT FROM a."{key}"'
                for key in operator.table.group_by
            )
            left = f"""
                SELECT r.* FROM (FROM read WHERE {_within(time, stretch)} AND {read.counts}) r
                SEMI JOIN asked a ON true {keys}
            """
            if not isinstance(operator, Joins):
                return (self._told(connection, own, left, time),)
            assert self.other is not None
            return tuple(self._joined(connection, operator.table, self.other, left, time, stretch))

    def _joined(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: JoinTable,
        other: Input,
        left: str,
        time: str,
        stretch: Span,
    ) -> Iterator[RowsOfInput]:
        """The left rows that the row of gold has, and all of the right side that they match."""
        ours, theirs = schema_of(self.own.bronze), schema_of(other.bronze)
        at = column_named(theirs, other.event_time).name
        within = table.join.within
        reached = Span(stretch.first - within.before, stretch.last + within.after)
        connection.register("right_read", _of_days(other, reached))
        on = [
            f'l."{column_named(ours, one).name}" = r."{column_named(theirs, two).name}"'
            for one, two in table.join.on.items()
        ]
        low, high = within.before // _MICROSECOND, within.after // _MICROSECOND
        span = f'epoch_us(l."{time}") - {low} AND epoch_us(l."{time}") + {high}'
        matches = " AND ".join([*on, f'epoch_us(r."{at}") BETWEEN {span}'])
        connection.execute(f"CREATE OR REPLACE TEMP VIEW of_left AS {left}")
        right = f"FROM right_read WHERE {_within(at, reached)}"
        kept = "FROM of_left"
        if table.join.type == "inner":
            kept = f"SELECT l.* FROM of_left l SEMI JOIN ({right}) r ON {matches}"
        yield self._told(connection, self.own, kept, time)
        both = f"SELECT r.* FROM ({right}) r SEMI JOIN of_left l ON {matches}"
        yield self._told(connection, other, both, at)

    def _told(
        self, connection: duckdb.DuckDBPyConnection, of: Input, sql: str, time: str
    ) -> RowsOfInput:
        """What is told of the rows that this selects."""
        connection.execute(f"CREATE OR REPLACE TEMP VIEW mine AS {sql}")
        numbers = [batch for (batch,) in connection.execute(
            "SELECT DISTINCT _batch FROM mine WHERE _batch IS NOT NULL"
        ).fetchall()]  # fmt: skip
        by_batch = ingested(of, of.bronze, numbers)
        late_to = [self._late_to(of.name, by_batch[one].version) for one in numbers]
        limits = [pa.array(numbers, pa.int64()), pa.array(late_to, pa.int64())]
        connection.register("limits", pa.table(limits, names=["_batch", "_late_to"]))
        connection.execute(
            f"""
            CREATE OR REPLACE TEMP VIEW judged AS
            SELECT m.*, epoch_us(m."{time}") <= l._late_to AS _is_late
            FROM mine m LEFT JOIN limits l ON m._batch = l._batch
            """
        )
        batches = connection.execute(
            f"""
            SELECT _batch, count(*), count(*) FILTER (_is_late), bool_or(_is_late IS NULL),
                min("{time}"), max("{time}")
            FROM judged GROUP BY _batch ORDER BY _batch DESC NULLS LAST
            """
        ).fetchall()
        parts, others = _parts(connection, of)
        unknown = any(one[3] for one in batches)
        return RowsOfInput(
            input=of.name,
            number=sum(one[1] for one in batches),
            first=min((one[4] for one in batches), default=None),
            last=max((one[5] for one in batches), default=None),
            late=None if unknown else sum(one[2] for one in batches),
            parts=parts,
            other_parts=others,
            batches=tuple(
                BatchOfRows(batch, _run(by_batch, batch), rows, None if unsure else late)
                for batch, rows, late, unsure, *_ in batches[:SAMPLE]
            ),
            other_batches=max(len(batches) - SAMPLE, 0),
            sample=_sampled(connection, of, "FROM judged", time, by_batch),
            late_sample=_sampled(connection, of, "FROM judged WHERE _is_late", time, by_batch),
        )

    def _late_to(self, name: str, version: int | None) -> int | None:
        """The event time, in microseconds, up to which rows of the row of gold were late that came
        in a version of an input; None: not known."""
        read = None if version is None else self.late_by.of(name, version)
        if read is None:
            return None
        if isinstance(self.operator, Joins):
            return read.watermark_ms * 1_000
        if isinstance(self.operator, Gapped):
            return read.late_ms * 1_000
        end = self.asked.window_end
        assert end is not None
        return _ALL if epoch_us(end) <= read.late_ms * 1_000 else _NONE


def _of_days(of: Input, stretch: Span) -> Dataset:
    first, last = stretch.first.date(), stretch.last.date()
    days = f"_event_date BETWEEN DATE '{first}' AND DATE '{last}'"
    return dataset_of(of.bronze, days)


def _within(time: str, stretch: Span) -> str:
    first, last = (f"TIMESTAMPTZ '{one.isoformat()}'" for one in (stretch.first, stretch.last))
    return f'"{time}" BETWEEN {first} AND {last}'


def _parts(
    connection: duckdb.DuckDBPyConnection, of: Input
) -> tuple[tuple[tuple[str, int], ...], int]:
    """The parts of the source with most rows, and how many rows those of the others have."""
    held = schema_of(of.bronze).names
    names = listed(one.name for one in of.origin if one.name in _PARTS and one.name in held)
    if not names:
        return (), 0
    found = connection.execute(
        f"SELECT {names}, count(*) AS _rows FROM mine GROUP BY {names} ORDER BY _rows DESC, {names}"
    ).fetchall()
    told = tuple(("/".join(map(str, part)), rows) for *part, rows in found[:_SHOWN_PARTS])
    return told, sum(one[-1] for one in found[_SHOWN_PARTS:])


def _sampled(
    connection: duckdb.DuckDBPyConnection,
    of: Input,
    sql: str,
    time: str,
    by_batch: Mapping[int, Ingested],
) -> tuple[BronzeRow, ...]:
    held = schema_of(of.bronze).names
    names = [one.name for one in of.origin if one.name in held]
    # The same ones each time, also of rows that are alike but for where they come from.
    order = listed([time, *names])
    found = connection.sql(f"{sql} ORDER BY {order} LIMIT {SAMPLE}").to_arrow_table()
    return tuple(
        BronzeRow(
            event_time=row[time],
            place=RowPlace({name: row[name] for name in names}),
            batch=row["_batch"],
            read_at=row.get("_batch_time"),
            run=_run(by_batch, row["_batch"]),
            late=row["_is_late"],
            values={name: cut(row[name]) for name in held if not name.startswith("_")},
        )
        for row in found.to_pylist()
    )


def _run(by_batch: Mapping[int, Ingested], batch: int | None) -> str | None:
    found = None if batch is None else by_batch.get(batch)
    return found.run if found else None


def cut(value: Any) -> Any:
    """A value, of text no more than anybody reads."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[: LONGEST_TEXT - 1]}…"
    if isinstance(value, bytes) and len(value) > LONGEST_TEXT // 2:
        return value[: LONGEST_TEXT // 2]
    if isinstance(value, list | tuple | Mapping):
        text = str(value)
        return value if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return value
