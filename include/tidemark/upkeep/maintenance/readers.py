"""Who still has to read what of a pipeline's tables: its queries, its repairs, its publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.state import gold_state
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST, Places
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.create import open_table
from tidemark.upkeep.checkpoints_in_use import InUse, checkpoints_in_use


@dataclass(frozen=True)
class Reader:
    """What has read a table below version `first`, and reads on from there.

    `waiting` is when the oldest commit with rows for it was made (None: there is none), `advice`
    what brings it on; None where nobody has to do anything, for a later run does.
    """

    who: str
    first: int
    waiting: datetime | None
    advice: str | None = None


def readers(pipeline: Pipeline, settings: Settings) -> Mapping[str, tuple[Reader, ...]]:
    """The readers of each of the pipeline's tables that has any, by the table's place.

    Raises CheckpointUnreadable where a query's offsets cannot be used, StorageUnavailable where a
    commit that is still to be read is gone.
    """
    places, options = Places(settings.root, pipeline.name), settings.storage_options
    found: dict[str, tuple[Reader, ...]] = {}
    in_use = [one for one in checkpoints_in_use(pipeline, settings) if one.table != INGEST]
    of_bronze = (reader for one in in_use for reader in _of_bronze(one, places.bronze, options))
    found[places.bronze] = tuple(of_bronze)
    for name in pipeline.tables:
        found[places.changes(name)] = tuple(_of_changes(places, name, options))
    return found


def _of_bronze(one: InUse, bronze: str, options: Mapping[str, str]) -> Iterator[Reader]:
    checkpoint = Checkpoint(one.uri, options)
    if checkpoint.query_id() is not None:
        last = checkpoint.last_batch("commits")
        first = 0 if last is None else checkpoint.delta_version(last)
        waiting, advice = _waiting(bronze, first, options), "Run the pipeline, to its end."
        yield Reader(f"the query of {one.table}", first, waiting, advice)
        # A repair looks for late rows in all that gold does not stand for. In append mode that may
        # be rows of weeks, until gold is so many versions behind that it notes them.
        unnoted = one.published + 1
        waiting = _waiting(bronze, unnoted, options)
        yield Reader(f"the repair of late rows of {one.table}", unnoted, waiting)


def _of_changes(places: Places, name: str, options: Mapping[str, str]) -> Iterator[Reader]:
    gold = open_table(places.gold(name), options)
    if gold is not None:
        first = gold_state(gold).changes + 1
        waiting = _waiting(places.changes(name), first, options)
        advice = "Publish the run that is held, or run the pipeline: its publish takes them along."
        yield Reader(f"the publish of {name}", first, waiting, advice)


def _waiting(uri: str, first: int, options: Mapping[str, str]) -> datetime | None:
    table = open_table(uri, options)
    return None if table is None else first_append(uri, first, table.version(), options)
