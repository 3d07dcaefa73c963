"""Set aside: windows on which a table's query fails are left out of it, and `changes` says so.

The life of it, after the query has failed on an expression in batch N:
1. find the windows that the rows of batch N touch, without Spark;
2. compute these from bronze, as it is at the end of N, and find those that fail;
3. append them to `changes`, cause `failed`, with what the engine says: the repair of the same run
   says what becomes of gold;
4. the query is started again and leaves them out; the engine repeats batch N.
What its state has of such a window stays as it was before N, and is not appended when the engine
emits it: the window changes only by being computed again (`repair.py`). Killed before 3, batch N
fails again and the same windows are found; after it, the next start leaves them out.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.checkpoint.log import Checkpoint
from tidemark.gold.failing import other_rows, set_aside
from tidemark.gold.recomputed import append_recomputed
from tidemark.operators.operator import BRONZE
from tidemark.operators.repaired import FAILED
from tidemark.operators.touched import NEVER_MS, BatchRead
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.streaming.inputs import input_at
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.run.aggregate import Aggregate
from tidemark.streaming.run.recomputed_apart import failing_among, verdict_rows


def set_failing_aside(spark: SparkSession, plan: Aggregate) -> int:
    """Set aside what the query's next batch fails on; the number of windows, 0 where the batch
    alone does not fail on any: then nothing is written.

    Called when the query has failed with ExpressionFailed. Raises that where too many fail.
    """
    batch = _failed_batch(plan.checkpoint, plan.seed)
    if batch is None:
        return 0
    operator, changes = plan.operator, plan.changes.existing()
    bronze = plan.bronze.at_version(batch.last)
    touched = operator.touched(bronze, plan.bronze, [batch], None, NEVER_MS).closed
    candidates = other_rows(touched, set_aside(changes, operator, plan.generation), operator)
    inputs = {BRONZE: input_at(spark, plan.bronze, plan.pipeline, batch.last)}
    streamed = streamed_operator(operator)

    def compute(closed: pa.Table) -> None:
        streamed.recompute(inputs, closed).write.format("noop").mode("overwrite").save()

    failed = failing_among(compute, candidates)
    told = {*operator.identity, *operator.values, FAILURE}
    schema = pa.schema([field for field in schema_of(changes) if field.name in told])
    rows = verdict_rows(failed, operator, bronze, schema)
    append_recomputed(plan.changes, rows, FAILED, plan.generation, plan.run_id, batch.number)
    return len(failed)


def _failed_batch(checkpoint: Checkpoint, seed: int | None) -> BatchRead | None:
    """The batch that is planned and not committed; None where there is none or it reads nothing.

    None for the very first one too: nothing rests on the measures yet, so a corrected file is taken
    by the next run, which is better than windows that are set aside. That of a later generation
    reads anew what was computed then, by which it is known what of that fails.
    """
    batch = checkpoint.last_batch("offsets")
    if batch is None or batch == checkpoint.last_batch("commits"):
        return None
    if batch == 0 and seed is None:
        return None
    first = checkpoint.delta_version(batch - 1) if batch else (seed or 0) + 1
    last = checkpoint.delta_version(batch) - 1
    return BatchRead(batch, first, last, 0) if first <= last else None
