"""What each of a pipeline's queries was started with, by its file or by what its table tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from deltalake import DeltaTable

from tidemark.checkpoint.log import Checkpoint
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import COUNTED, Pipeline, Window, WindowTable
from tidemark.pipeline.places import FIRST_GENERATION, INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.contract import (
    Contract,
    KeyColumn,
    MeasureColumn,
    Seed,
    contract_of,
    read_contract,
)
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.generation import generation_in_use, generation_of
from tidemark.storage.warehouse import Warehouse

_BEFORE_KEYS, _AFTER_MEASURES = "window_end", "rows"


@dataclass(frozen=True)
class RecordedQuery:
    """One query of a pipeline: where its checkpoint and its contract lie, what its file asks for,
    and what it was started with. `recorded` is None where it was never started; `place` holds no
    contract yet where that was found `adopted`, told by the table."""

    name: str
    checkpoint: Checkpoint
    place: str
    asked: Contract
    recorded: Contract | None
    adopted: bool = False
    generation: int = FIRST_GENERATION

    @property
    def planned(self) -> bool:
        """Was a batch ever planned here? What was recorded before that binds nobody."""
        logs = ("offsets", "commits")
        return any(self.checkpoint.last_batch(log) is not None for log in logs)

    @property
    def migrated(self) -> bool:
        """Does its table hold rows of its generation before the first batch?"""
        return self.recorded is not None and self.recorded.seed is not None


def queries_of(pipeline: Pipeline, settings: Settings) -> tuple[RecordedQuery, ...]:
    """The ingest, and the query of each table in the generation that gold names."""
    warehouse = Warehouse.of(pipeline.name, settings)
    places, options = warehouse.places, warehouse.options
    ingest = Checkpoint(places.ingest_checkpoint, options)
    asked = contract_of(pipeline, INGEST, settings)
    found = [
        _found(
            RecordedQuery(INGEST, ingest, places.contract(INGEST, FIRST_GENERATION), asked, None),
            None,
        )
    ]
    for table in pipeline.tables:
        gold = warehouse.gold(table).open()
        generation = generation_of(gold)
        checkpoint = Checkpoint(places.query_checkpoint(table, generation), options)
        asked = contract_of(pipeline, table, settings)
        place = places.contract(table, generation)
        query = RecordedQuery(table, checkpoint, place, asked, None, generation=generation)
        found.append(_found(query, gold))
    return tuple(found)


def as_it_ran(pipeline: Pipeline, warehouse: Warehouse) -> Pipeline:
    """The pipeline as its queries last ran by it, each table by the generation in use, with the
    checks and views of its file. What was never recorded is as the file has it.
    """
    places, options = warehouse.places, warehouse.options
    ingest = read_contract(places.contract(INGEST, FIRST_GENERATION), options)
    ran = pipeline if ingest is None else ingest.pipeline
    source = ran.source.model_copy(update={"checks": pipeline.source.checks})
    # A table's content is another than the ingest's where it was out of the file, or rolled back.
    lookup, partners, tables = dict(ran.lookup), dict(ran.partners), {}
    for name, asked in pipeline.tables.items():
        place = places.contract(name, generation_in_use(warehouse, name))
        recorded = read_contract(place, options)
        of = pipeline if recorded is None else recorded.pipeline
        lookup, partners = lookup | of.lookup, partners | of.partners
        of_now = {"checks": asked.checks, "views": asked.views}
        tables[name] = of.tables[name].model_copy(update=of_now)
    return ran.model_copy(
        update={"source": source, "lookup": lookup, "partners": partners, "tables": tables}
    )


def seeds_of(pipeline: Pipeline, warehouse: Warehouse) -> dict[str, int]:
    """Of each table in a later generation, the version of bronze that it was computed from."""
    seeds = {table: begun_from(table, warehouse) for table in pipeline.tables}
    return {table: seed.bronze for table, seed in seeds.items() if seed is not None}


def begun_from(table: str, warehouse: Warehouse) -> Seed | None:
    """What a table's generation was computed from; None where it is the first one."""
    place = warehouse.places.contract(table, generation_in_use(warehouse, table))
    recorded = read_contract(place, warehouse.options)
    return None if recorded is None else recorded.seed


def column_types(table: DeltaTable) -> dict[str, str]:
    """A table's columns and their types as Delta writes them."""
    return types_of(table.schema().to_json())


def types_of(schema_json: str) -> dict[str, str]:
    """The columns of a schema as Delta writes it, and their types."""
    return {
        field["name"]: kind if isinstance(kind := field["type"], str) else json.dumps(kind)
        for field in json.loads(schema_json)["fields"]
    }


def _found(query: RecordedQuery, gold: DeltaTable | None) -> RecordedQuery:
    recorded = read_contract(query.place, query.checkpoint.options)
    if recorded is not None or not query.planned:
        return replace(query, recorded=recorded)
    contract = query.asked if gold is None else _told_by_gold(query.asked, gold)
    return replace(query, recorded=contract, adopted=True)


def _told_by_gold(asked: Contract, gold: DeltaTable) -> Contract:
    """The contract of a query that ran before contracts were recorded.

    Gold's columns are its keys and measures in the order of the first run; a measure's comment is
    its expression. The length and the offset of its windows stand in any row. What nothing tells
    (the slide, the output mode) is taken to be as the pipeline's file has it.
    """
    columns, where = _keys_and_measures(gold)
    types = column_types(gold)
    measures = tuple(
        MeasureColumn(name=name, expression=sql, type=types[name])
        for name, sql in columns
        if sql is not None
    )
    keys = tuple(KeyColumn(name=name, type=types[name]) for name, sql in columns if sql is None)
    table = asked.pipeline.tables[asked.query]
    said = dict(zip(table.keys, table.group_by, strict=True))
    window = {}
    if isinstance(table, WindowTable):
        window = {"window": table.window.model_copy(update=_told_by_row(gold, table.window))}
    started = table.model_copy(
        update={
            **window,
            "group_by": tuple(said.get(key.name, key.name) for key in keys),
            "measures": {measure.name: measure.expression for measure in measures},
            "where": where,
        }
    )
    tables = {**asked.pipeline.tables, asked.query: started}
    pipeline = asked.pipeline.model_copy(update={"tables": tables})
    return asked.model_copy(update={"keys": keys, "measures": measures, "pipeline": pipeline})


def _keys_and_measures(gold: DeltaTable) -> tuple[list[tuple[str, str | None]], str | None]:
    """Each with its comment, in the order of the columns; and which rows count (`Table.where`)."""
    fields = json.loads(gold.schema().to_json())["fields"]
    columns = [(field["name"], field["metadata"].get("comment")) for field in fields]
    names = [name for name, _ in columns]
    first, last = names.index(_BEFORE_KEYS) + 1, names.index(_AFTER_MEASURES)
    said = columns[last][1] or ""
    return columns[first:last], said.removeprefix(COUNTED) if said.startswith(COUNTED) else None


def _told_by_row(gold: DeltaTable, window: Window) -> Mapping[str, timedelta]:
    """Length and offset of gold's windows, as a change to the model's window; none where gold is
    empty."""
    columns = ["window_start", "window_end"]
    for row in dataset_of(gold).head(1, columns=columns).to_pylist():
        start, end = (row[name] for name in columns)
        return {"length": end - start, "offset": (start - instant_of(0)) % window.slide}
    return {}
