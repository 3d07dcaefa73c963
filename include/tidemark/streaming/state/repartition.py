"""Bring one query's state to other partitions, and prove that it is the same.

The life of one, under the pipeline's lease, with the pipeline stopped:
1. read the state after the query's last batch, and note a digest of each store;
2. the engine writes it anew, as what a batch leaves that reads nothing;
3. read it after that batch: the digests must be equal.
Where 2 or 3 fail, what that batch wrote goes again, and the query is where it was. Killed anywhere,
the files of before are all there: a repetition begins with 1, and passes over what is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.checkpoint.doctor.findings import shown
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.layout import sort_files
from tidemark.checkpoint.reading.place import checkpoint_files
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.rewind.read import Point, files_beyond
from tidemark.checkpoint.state.plan_repartition import FOLD, batch_before
from tidemark.commit_point import commit_point
from tidemark.errors import RepartitionFailed, StateDiffers
from tidemark.runs.results.repartition_result import QueryRepartition
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.engine.repartition import repartition
from tidemark.streaming.operators.fold_processor import VARIABLE
from tidemark.streaming.run.aggregate import settings_of
from tidemark.streaming.state.stored import Held, StateOf, held, stored_rows

Repartition = Callable[[SparkSession, FilePlace, int], None]
# Of each store by its name, or variable.
Stores = dict[str, Held]
_INDEXED = "-keyWithIndexToValue"
# An adaptive plan of a store without rows may have no task for some partition, and so no file.
_EACH_PARTITION = {"spark.sql.adaptive.enabled": "false"}


def repartition_state(
    spark: SparkSession,
    checkpoint: FilePlace,
    partitions: int,
    by: Repartition = repartition,
) -> QueryRepartition:
    """Carry it out, or what is left of it. Where it cannot be done the checkpoint is as it was:
    RepartitionFailed, StateDiffers."""
    begin = time.monotonic()
    facts = read_checkpoint(checkpoint)
    batch = batch_before(facts, partitions)
    former = facts.offsets.entry(batch)
    assert former is not None
    assert former.partitions is not None
    try:
        before = _stores(spark, facts, batch, former.partitions)
        if facts.commits.newest == batch:
            with settings_of(spark, _EACH_PARTITION):
                by(spark, checkpoint, partitions)
        after = _stores(spark, facts, batch + 1, partitions)
        _compare(facts.uri, batch, before, after)
    except (Py4JError, PySparkException) as error:
        _take_back(checkpoint, batch)
        raise RepartitionFailed(
            f"The engine did not bring the state of {facts.uri} to {partitions} partitions: "
            f"{str(error).splitlines()[0]}. What it wrote is removed, and the query goes on as "
            "before. Trying again can help."
        ) from error
    except StateDiffers:
        _take_back(checkpoint, batch)
        raise
    return QueryRepartition(
        batch=batch,
        before=former.partitions,
        after=partitions,
        rows=sum(one.rows for one in before.values()),
        seconds=round(time.monotonic() - begin, 3),
    )


def _stores(spark: SparkSession, facts: CheckpointFacts, batch: int, partitions: int) -> Stores:
    """What is held after a batch that left so many partitions."""
    return {
        f"operator {of.operator}, {of.named[0][1]}": held(
            stored_rows(spark, facts.uri, batch, of), partitions, by
        )
        for operator in facts.operators
        for of, by in _views(operator)
    }


def _views(operator: StatefulOperator) -> list[tuple[StateOf, slice]]:
    """All that the engine's reader shows of an operator, with the columns of the key by which rows
    are given to partitions: of a session without its start, of a join without the row's number."""
    metadata = operator.metadata
    assert metadata is not None
    every, number = slice(None), operator.id
    if metadata.name == FOLD:
        named: list[tuple[tuple[str, str], ...]] = [
            (("stateVarName", VARIABLE),),
            (("readRegisteredTimers", "true"),),
        ]
        return [(StateOf(number, one), every) for one in named]
    first = slice(metadata.prefix_columns or None)
    return [
        (StateOf(number, (("storeName", name),)), slice(-1) if name.endswith(_INDEXED) else first)
        for name in metadata.stores
    ]


def _compare(uri: str, batch: int, before: Stores, after: Stores) -> None:
    if differing := [name for name in before if before[name] != after[name]]:
        raise StateDiffers(
            f"{uri}: in other partitions, the state after batch {batch} is not what it was "
            f"({shown(differing)}). What was written is removed, and the query goes on as before. "
            "Do not try again with this version of Spark; keep a copy."
        )


@commit_point(
    "repartition taken back",
    after_a_kill="before and in the middle: no run starts, and a repetition does it again or takes "
    "it back; after: the query is where it was",
)
def _take_back(checkpoint: FilePlace, batch: int) -> None:
    """Remove what the batch of the repartition wrote; it has no list of sources."""
    going = files_beyond(sort_files(checkpoint_files(checkpoint)), Point(batch, {}))
    checkpoint.fence()
    checkpoint.remove_files([checkpoint.below(name) for name in going])
