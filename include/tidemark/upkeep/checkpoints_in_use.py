"""The checkpoints that a pipeline's queries work on: the ingest's, and each table's in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.checkpoints import ingest_checkpoint, query_checkpoint
from tidemark.gold.state import gold_state
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import FIRST_GENERATION, INGEST
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class InUse:
    """A checkpoint: `table` is `ingest` for the query that reads the source, which has no
    generations. `published`: the version of bronze that the table's gold has; -1 for none.
    `keeps_state` is as in `QueryFacts`."""

    table: str
    generation: int | None
    place: Checkpoint
    published: int = -1
    keeps_state: bool | None = None

    @property
    def name(self) -> str:
        of = "" if self.generation is None else f", generation {self.generation}"
        return f"{self.table}{of}"


def checkpoints_in_use(pipeline: Pipeline, warehouse: Warehouse) -> Iterator[InUse]:
    """The generations are those that gold names now; a folder may not be there yet."""
    yield InUse(INGEST, None, ingest_checkpoint(warehouse))
    for name, table in pipeline.tables.items():
        keeps_state = False if table.recomputes else None
        gold = warehouse.gold(name).open()
        if gold is None:
            place = query_checkpoint(warehouse, name, FIRST_GENERATION)
            yield InUse(name, FIRST_GENERATION, place, keeps_state=keeps_state)
        else:
            state = gold_state(gold)
            place = query_checkpoint(warehouse, name, state.generation)
            yield InUse(name, state.generation, place, state.bronze, keeps_state)
