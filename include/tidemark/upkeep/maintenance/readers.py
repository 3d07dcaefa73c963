"""Who still has to read what of a pipeline's tables: its queries, its repairs, its publishes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.checkpoints import query_checkpoint
from tidemark.gold.other_readers import if_no_more, other_readers
from tidemark.gold.plan import noted_name
from tidemark.gold.state import gold_state
from tidemark.operators.joins.joins import input_name
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.found import REJECTS
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import stat_files
from tidemark.storage.generation import generation_in_use
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.checkpoints_in_use import InUse, checkpoints_in_use

_RUN = "Run the pipeline, to its end."


@dataclass(frozen=True)
class TableReader:
    """What has read a table below version `first`, and reads on from there.

    `waiting` is when the oldest commit with rows for it was made (None: there is none), `advice`
    what brings it on; None where nobody has to do anything, for a later run does.
    """

    who: str
    first: int
    waiting: datetime | None
    advice: str | None = None


def readers(pipeline: Pipeline, settings: Settings) -> Mapping[str, tuple[TableReader, ...]]:
    """The readers of each of the pipeline's tables that has any, by the table's place.

    Raises CheckpointUnreadable where a query's offsets cannot be used, StorageUnavailable where a
    commit that is still to be read is gone.
    """
    warehouse = Warehouse.of(pipeline.name, settings)
    found: dict[str, tuple[TableReader, ...]] = {}
    in_use = [one for one in checkpoints_in_use(pipeline, warehouse) if one.table != INGEST]
    of_bronze = (reader for one in in_use for reader in _of_bronze(one, warehouse.bronze))
    found[warehouse.bronze.uri] = (*of_bronze, *_of_other_pipelines(warehouse, settings))
    found[warehouse.rejects.uri] = tuple(_of_rejects(pipeline, warehouse))
    for name in pipeline.tables:
        changes = warehouse.changes(name, generation_in_use(warehouse, name))
        found[changes.uri] = tuple(_of_changes(warehouse, name, changes))
    return found


def _of_bronze(one: InUse, bronze: TablePlace) -> Iterator[TableReader]:
    checkpoint = one.place
    if checkpoint.query_id() is None:
        return
    if one.published < 0:
        yield from _of_unpublished(one.table, _RUN, checkpoint, bronze, checkpoint.delta_version)
        return
    last = checkpoint.last_batch("commits")
    first = one.published + 1 if last is None else checkpoint.delta_version(last)
    waiting = _query_waits(bronze, first, checkpoint)
    yield TableReader(f"the query of {one.table}", first, waiting, _RUN)
    # A repair looks for late rows in all that gold does not stand for. In append mode that may
    # be rows of weeks, until gold is so many versions behind that it notes them.
    unnoted = one.published + 1
    waiting = _waiting(bronze, unnoted)
    yield TableReader(f"the repair of late rows of {one.table}", unnoted, waiting)


def _of_unpublished(
    table: str,
    advice: str,
    checkpoint: Checkpoint,
    bronze: TablePlace,
    end_of: Callable[[int], int | None],
) -> Iterator[TableReader]:
    """The first batch that finds it reads the files that are there when it is planned, not the
    commits of before: their entries may be gone. `end_of`: the version that the next one begins
    with."""
    last, planned = checkpoint.last_batch("commits"), checkpoint.batches("offsets")
    end = None if last is None else end_of(last)
    first_end = next((found for batch in planned if (found := end_of(batch)) is not None), None)
    if first_end is None:
        return
    began = max(first_end - 1, 0) if planned[0] == 0 else 0
    first = began + 1 if end is None else end
    waiting = _query_waits(bronze, first, checkpoint)
    yield TableReader(f"the query of {table}", first, waiting, advice)
    # Until it is published, the first batch is repeated over that version of the table, and looked
    # through for late rows.
    waiting = _planned_at(checkpoint) or waiting
    yield TableReader(f"the repair of late rows of {table}", began, waiting, advice)


def _of_other_pipelines(warehouse: Warehouse, settings: Settings) -> Iterator[TableReader]:
    """Tables of other pipelines that read bronze, as these have noted."""
    name = input_name(warehouse.places.pipeline)
    for reader in other_readers(warehouse):
        theirs = Warehouse.of(reader.pipeline, settings)
        gold, bronze = theirs.gold(reader.table).open(), warehouse.bronze.open()
        if gold is None or bronze is None:
            continue
        state = gold_state(gold, (name,))
        checkpoint = query_checkpoint(theirs, reader.table, state.generation)
        advice = f"Run {reader.pipeline}, to its end. {if_no_more(warehouse, [reader])}"
        end_of, published = _ends(checkpoint, str(bronze.metadata().id)), state.inputs[name]
        if published < 0:
            yield from _of_unpublished(reader.name, advice, checkpoint, warehouse.bronze, end_of)
            continue
        last = checkpoint.last_batch("commits")
        read = None if last is None else end_of(last)
        first = published + 1 if read is None else read
        waiting = _query_waits(warehouse.bronze, first, checkpoint)
        yield TableReader(f"the query of {reader.name}", first, waiting, advice)
        waiting = _waiting(warehouse.bronze, published + 1)
        yield TableReader(f"the repair of late rows of {reader.name}", published + 1, waiting)


def _ends(checkpoint: Checkpoint, table_id: str) -> Callable[[int], int | None]:
    return lambda batch: checkpoint.delta_versions(batch).get(table_id)


def _of_rejects(pipeline: Pipeline, warehouse: Warehouse) -> Iterator[TableReader]:
    """Each run holds the batches since the last publish to the notes of their commits, and one
    without an accepted row has its note in rejects alone."""
    rejects = warehouse.rejects.open()
    if rejects is None:
        return
    noted = noted_name(REJECTS, str(rejects.metadata().id))
    for name in pipeline.tables:
        gold = warehouse.gold(name).open()
        published = None if gold is None else gold.transaction_version(noted)
        if published is not None:
            yield TableReader(f"the look for losses of {name}", published + 1, None)


def _query_waits(bronze: TablePlace, first: int, checkpoint: Checkpoint) -> datetime | None:
    """Since when a query has had rows to read, of version `first` and later. Its first batch is
    repeated over the files that were there when it was planned."""
    waiting = _waiting(bronze, first)
    if checkpoint.last_batch("commits") is None and (planned := _planned_at(checkpoint)):
        return min(planned, waiting or planned)
    return waiting


def _planned_at(checkpoint: Checkpoint) -> datetime | None:
    name = f"{checkpoint.uri}/offsets/0"
    planned = stat_files([name], checkpoint.options)[name]
    return None if planned is None else planned.modified


def _of_changes(warehouse: Warehouse, name: str, changes: TablePlace) -> Iterator[TableReader]:
    gold = warehouse.gold(name).open()
    if gold is not None:
        first = gold_state(gold).changes + 1
        waiting = _waiting(changes, first)
        advice = "Publish the run that is held, or run the pipeline: its publish takes them along."
        yield TableReader(f"the publish of {name}", first, waiting, advice)


def _waiting(place: TablePlace, first: int) -> datetime | None:
    table = place.open()
    return None if table is None else first_append(place, first, table.version())
