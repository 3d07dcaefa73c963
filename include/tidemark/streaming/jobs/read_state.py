"""`spark-submit`'s entry for reading state: arguments in, rows out, exit code out.

It only reads, so it takes no lease; a run that works meanwhile is not disturbed. The first rows by
their keys go to the result, or are printed, a JSON object a line; with `--delta` all rows become a
Delta table of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.reading.facts import CheckpointFacts
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.inventory import inventory
from tidemark.errors import ConditionInvalid, NoSuchSide, StateNotKept, TableExists
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.runs.requests import StateRequest
from tidemark.runs.results.looks import StateRows
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.result_file import RunError
from tidemark.storage.warehouse import Warehouse
from tidemark.streaming.jobs.entry import (
    Job,
    JobOutcome,
    job_exit_code,
    job_main,
    reported,
)
from tidemark.streaming.operators.kinds import STREAMED
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import start_session
from tidemark.streaming.state.stored import StateOf, stored_rows
from tidemark.upkeep.checkpoints_in_use import checkpoints_in_use


def main(argv: Sequence[str] | None = None) -> int:
    """Read a table's state; the exit code. Never raises for an error that it can report."""
    request = StateRequest.read(argv)

    def failed(pipeline: str, error: RunError, **_: object) -> StateRows:
        return StateRows(pipeline=pipeline, table=request.table, error=error)

    return job_main(request, _rows, failed)


def _rows(job: Job[StateRequest]) -> JobOutcome:
    asked = job.request
    result = read_once(job.pipeline, job.settings, asked, job.progress)
    if not asked.result:
        print("\n".join(result.rows), flush=True)
    return JobOutcome(result, asked.result, job_exit_code(result.error))


def read_once(
    pipeline: Pipeline,
    settings: Settings,
    asked: StateRequest,
    progress: Progress,
    session: Callable[[Pipeline, Settings], SparkSession] = start_session,
) -> StateRows:
    """What was asked for, errors included."""
    try:
        return _read(pipeline, settings, asked, progress, session)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result file says it
        error = reported(failure, progress)
        return StateRows(pipeline=pipeline.name, table=asked.table, error=error)


def _read(
    pipeline: Pipeline,
    settings: Settings,
    asked: StateRequest,
    progress: Progress,
    session: Callable[[Pipeline, Settings], SparkSession],
) -> StateRows:
    warehouse = Warehouse.of(pipeline.name, settings)
    in_use = checkpoints_in_use(pipeline, warehouse)
    (place,) = [one.place for one in in_use if one.table == asked.table]
    facts, uri = read_checkpoint(place), place.uri
    batch = check_kept(facts, asked.batch)
    since = None if asked.since is None else check_kept(facts, asked.since)
    of = _state_of(pipeline, asked.table, asked.side)
    if asked.delta:
        _check_new(warehouse.table_at(asked.delta))
    with progress.stage("session"):
        spark = session(pipeline, settings)
    with progress.stage("reading"), progress.tasks_of(spark):
        rows = remembered(stored_rows(spark, uri, batch, of), asked.where)
        if since is not None:
            earlier = remembered(stored_rows(spark, uri, since, of), asked.where)
            rows = difference(earlier, rows)
        if asked.delta:
            _write_table(rows, asked.delta)
        return StateRows(
            pipeline=pipeline.name,
            table=asked.table,
            checkpoint=uri,
            batch=batch,
            since=since,
            count=rows.count(),
            columns=rows.columns,
            rows=_first(rows, asked.limit),
            delta=asked.delta,
        )


def _state_of(pipeline: Pipeline, table: str, side: str | None) -> StateOf:
    found = STREAMED[type(operator_of(pipeline, table))].state(side)
    if found is None:
        raise NoSuchSide(
            f"{table} joins nothing, so its state has no side `{side}`. Nothing was read: leave "
            "--side out."
        )
    return found


def _write_table(rows: DataFrame, place: str) -> None:
    """In one commit: killed before it, there is no table."""
    rows.write.format("delta").mode("error").save(spark_uri(place))


def _check_new(place: TablePlace) -> None:
    if place.open() is not None:
        raise TableExists(
            f"There is a Delta table {place.uri} already; nothing was written to it. Name another "
            "place: rows of state are not added to what is there."
        )


def _first(rows: DataFrame, limit: int) -> list[str]:
    """The first rows by their keys, as JSON."""
    columns = [F.col(f"`{name}`") for name in rows.columns]
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return [row[0] for row in ordered(rows).limit(limit).select(text).collect()]


def kept_batches_of_state(facts: CheckpointFacts) -> tuple[int, ...]:
    """The committed batches whose state can be built in every partition, by names and sizes."""
    stores = [p for store in inventory(facts).stores for p in store.partitions]
    if not stores:
        return ()
    versions = [{v for found in one.versions for v in found} for one in stores]
    last = facts.commits.newest
    every = set.intersection(*versions)
    return tuple(v - 1 for v in sorted(every) if last is not None and v - 1 <= last)


def check_kept(facts: CheckpointFacts, batch: int | None) -> int:
    """The batch, or the last committed one; StateNotKept where its state cannot be read."""
    kept = kept_batches_of_state(facts)
    if not kept:
        raise StateNotKept(
            f"{facts.uri} has no state that can be read: the query keeps none, or lost it. See "
            "`tidemark state show`. Nothing was read."
        )
    if batch is None:
        return kept[-1]
    if batch not in kept:
        raise StateNotKept(
            f"{facts.uri} has no state of batch {batch}: it can be read after batches {kept[0]} to "
            f"{kept[-1]}. Nothing was read."
        )
    return batch


CHANGE, VALUE, BEFORE, AFTER = "_change", "_value", "_before", "_after"
_OURS = frozenset({CHANGE, VALUE, BEFORE, AFTER})


def remembered(stored: DataFrame, where: str | None = None) -> DataFrame:
    """The columns of the key, and `_value`: what is held for it, as JSON with the engine's names.

    `where` is Spark SQL on the key's columns. Raises ConditionInvalid.
    """
    value = F.to_json("value", {"ignoreNullFields": "false"}).alias(VALUE)
    rows = stored.select("key.*", value)
    return rows if where is None else _filtered(rows, where)


def difference(before: DataFrame, after: DataFrame) -> DataFrame:
    """Of two results of `remembered`, the keys that are not the same in both: `_change` (added,
    removed, changed), the key's columns, `_before` and `_after`.

    States are compared, not what was written in between: a key that was written again with the
    same value is no difference, and any two batches that can be read can be compared.
    """
    keys = key_columns(after)
    one = before.select(F.struct(*map(_column, keys)).alias("one"), F.col(VALUE).alias(BEFORE))
    other = after.select(F.struct(*map(_column, keys)).alias("other"), F.col(VALUE).alias(AFTER))
    both = one.join(other, F.col("one").eqNullSafe(F.col("other")), "full_outer")
    change = (
        F.when(F.col("one").isNull(), "added")
        .when(F.col("other").isNull(), "removed")
        .otherwise("changed")
    )
    key = F.coalesce("one", "other").alias("key")
    differing = both.where(~F.col(BEFORE).eqNullSafe(F.col(AFTER)))
    return differing.select(change.alias(CHANGE), key, BEFORE, AFTER).select(
        CHANGE, "key.*", BEFORE, AFTER
    )


def key_columns(rows: DataFrame) -> list[str]:
    """The columns of the key."""
    return [name for name in rows.columns if name not in _OURS]


def ordered(rows: DataFrame) -> DataFrame:
    """By their keys."""
    return rows.orderBy(*map(_column, key_columns(rows)))


def _filtered(rows: DataFrame, where: str) -> DataFrame:
    try:
        return rows.where(where)
    except (AnalysisException, ParseException) as error:
        columns = ", ".join(f"{name} {rows.schema[name].dataType.simpleString()}"
                            for name in key_columns(rows))  # fmt: skip
        message = str(error).splitlines()[0]
        raise ConditionInvalid(
            f"`{where}` is no condition on the key, whose columns are {columns}. Nothing was read. "
            f"Spark says: {message}"
        ) from error


def _column(name: str) -> Column:
    return F.col(f"`{name}`")


if __name__ == "__main__":
    sys.exit(main())
