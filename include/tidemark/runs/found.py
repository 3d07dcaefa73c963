"""What is there of a pipeline's table: all that its gold rests on, each with its identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.pins import Dependency
from tidemark.gold.plan import CHANGES
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE, Operator
from tidemark.operators.other_inputs import other_places
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.runs.contract.contract import read_contract
from tidemark.runs.generations import generations
from tidemark.storage.delta.appended import entry_mark
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.generation import generation_of
from tidemark.storage.warehouse import Warehouse

# Beside `changes`, `bronze` and `ingest`: what gold's transactions call the other supports.
REJECTS = "rejects"
QUERY = "query"


@dataclass(frozen=True)
class FoundTable:
    """A Delta table as it is now; `table` is None where there is none."""

    name: str
    place: TablePlace
    table: DeltaTable | None

    @property
    def id(self) -> str | None:
        """Delta's id: it stays through RESTORE and in a copy, and a table made anew has another."""
        return None if self.table is None else str(self.table.metadata().id)

    @property
    def at(self) -> int:
        return -1 if self.table is None else self.table.version()

    @property
    def uri(self) -> str:
        return self.place.uri


@dataclass(frozen=True)
class FoundQuery:
    """A query as its checkpoint tells it: its id, its last planned and its last committed batch,
    -1 before the first."""

    name: str
    checkpoint: Checkpoint
    id: str | None
    planned: int
    at: int

    @classmethod
    def of(cls, name: str, checkpoint: Checkpoint) -> FoundQuery:
        lasts = (checkpoint.last_batch(log) for log in ("offsets", "commits"))
        planned, committed = (-1 if last is None else last for last in lasts)
        return cls(name, checkpoint, checkpoint.query_id(), planned, committed)

    @property
    def uri(self) -> str:
        return self.checkpoint.uri


@dataclass(frozen=True)
class TableInventory:
    """A table of a pipeline with all that its gold rests on. `later` are generations above the one
    in use: gold went back, was lost or restored, or a migration was killed."""

    pipeline: str
    name: str
    content: Pipeline
    warehouse: Warehouse
    generation: int
    later: tuple[int, ...]
    gold: FoundTable
    changes: FoundTable
    bronze: FoundTable
    rejects: FoundTable
    ingest: FoundQuery
    query: FoundQuery
    others: tuple[FoundTable, ...] = ()

    @property
    def operator(self) -> Operator:
        """That of the query as it was started: the file may have changed since."""
        return started_operator(self.content, self.warehouse, self.name, self.generation)

    @property
    def supports(self) -> tuple[FoundTable | FoundQuery, ...]:
        return (self.changes, self.bronze, *self.others, self.rejects, self.ingest, self.query)

    def rests_on(self, at: Mapping[str, int] | None = None) -> dict[str, Dependency]:
        """What is there, as pins hold it: as it is now, or where `at` says."""
        known = at or {}
        found = {
            one.name: Dependency(id=one.id, at=known.get(one.name, one.at))
            for one in self.supports
            if one.id is not None
        }
        for other in self.others:
            if other.name in found:
                mark = entry_mark(other.place, found[other.name].at)
                found[other.name] = found[other.name].model_copy(update={"entry": mark})
        return found


def found_tables(pipeline: Pipeline, warehouse: Warehouse) -> Iterator[TableInventory]:
    """All tables of a pipeline, what they share read once; nothing is written."""
    shared = _shared(warehouse)
    return (_found(pipeline, warehouse, name, *shared) for name in pipeline.tables)


def found_of(pipeline: Pipeline, warehouse: Warehouse, table: str) -> TableInventory:
    """One table of a pipeline."""
    return _found(pipeline, warehouse, table, *_shared(warehouse))


def _shared(warehouse: Warehouse) -> tuple[FoundTable, FoundTable, FoundQuery]:
    """Bronze, rejects and the ingest."""
    bronze, rejects = _table(BRONZE, warehouse.bronze), _table(REJECTS, warehouse.rejects)
    return bronze, rejects, FoundQuery.of(INGEST, ingest_checkpoint(warehouse))


def _found(
    pipeline: Pipeline,
    warehouse: Warehouse,
    name: str,
    bronze: FoundTable,
    rejects: FoundTable,
    ingest: FoundQuery,
) -> TableInventory:
    gold = _table("gold", warehouse.gold(name))
    generation = generation_of(gold.table)
    others = other_places(started_operator(pipeline, warehouse, name, generation), warehouse)
    return TableInventory(
        pipeline=pipeline.name,
        name=name,
        content=pipeline,
        warehouse=warehouse,
        generation=generation,
        later=tuple(number for number in generations(warehouse, name) if number > generation),
        gold=gold,
        changes=_table(CHANGES, warehouse.changes(name, generation)),
        bronze=bronze,
        rejects=rejects,
        ingest=ingest,
        query=FoundQuery.of(QUERY, query_checkpoint(warehouse, name, generation)),
        others=tuple(_table(other, place) for other, place in others.items()),
    )


def started_operator(
    content: Pipeline, warehouse: Warehouse, name: str, generation: int
) -> Operator:
    """The operator of a generation's query as it was started, whose inputs may be others than those
    of the file; as the file has it where it was not started yet."""
    place = warehouse.places.contract(name, generation)
    started = read_contract(place, warehouse.options)
    return operator_of(content if started is None else started.pipeline, name)


def _table(name: str, place: TablePlace) -> FoundTable:
    return FoundTable(name, place, place.open())
