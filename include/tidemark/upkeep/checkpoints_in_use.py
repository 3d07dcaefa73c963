"""The checkpoints that a pipeline's queries work on: the ingest's, and each table's in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.gold.state import gold_state
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.warehouse import Warehouse


@dataclass(frozen=True)
class InUse:
    """A checkpoint: `table` is `ingest` for the query that reads the source, which has no
    generations. `published`: the version of bronze that the table's gold has; -1 for none."""

    table: str
    generation: int | None
    uri: str
    published: int = -1

    @property
    def name(self) -> str:
        of = "" if self.generation is None else f", generation {self.generation}"
        return f"{self.table}{of}"


def checkpoints_in_use(pipeline: Pipeline, settings: Settings) -> Iterator[InUse]:
    """The generations are those that gold names now; a folder may not be there yet."""
    warehouse = Warehouse.of(pipeline.name, settings)
    places = warehouse.places
    yield InUse(INGEST, None, places.ingest_checkpoint)
    for name in pipeline.tables:
        gold = warehouse.gold(name).open()
        if gold is None:
            yield InUse(name, 1, places.query_checkpoint(name, 1))
        else:
            state = gold_state(gold)
            uri = places.query_checkpoint(name, state.generation)
            yield InUse(name, state.generation, uri, state.bronze)
