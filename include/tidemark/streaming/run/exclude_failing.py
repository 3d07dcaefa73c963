"""Windows on which a table's query fails are excluded from it, and `changes` says so.

The life of it, after the query has failed on an expression in batch N:
1. find the windows that batch N evaluates rows of, without Spark: those that its rows touch, and
   of a join those of rows that it gives up as unmatched;
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

from tidemark.gold.failing import excluded_windows, other_rows
from tidemark.gold.recomputed import append_recomputed
from tidemark.operators.batches_read import ReadTo, read_to
from tidemark.operators.operator import BRONZE
from tidemark.operators.other_inputs import others_published
from tidemark.operators.repaired import FAILED
from tidemark.operators.touched import BatchRead
from tidemark.runs.contract.contract import Seed
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.streaming.inputs import counted_rows, input_at, others_at
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.run.aggregate import Aggregate
from tidemark.streaming.run.recomputed_singly import failing_among, verdict_rows


def exclude_failing(spark: SparkSession, plan: Aggregate) -> int:
    """Exclude what the query's next batch fails on; the number of windows, 0 where the batch
    alone does not fail on any: then nothing is written.

    Called when the query has failed with ExpressionFailed. Raises that where too many fail.
    """
    failed_batch = _failed_batch(plan)
    if failed_batch is None:
        return 0
    batch, before_ms = failed_batch
    # Of the other inputs as far as the batch has read them.
    at = {name: (last, "true") for name, (_, last) in batch.others.items()}
    operator, changes = plan.table.reading(at), plan.table.changes.existing()
    in_bronze = operator.rows_in(plan.table.bronze.at_version(batch.last))
    touched = in_bronze.evaluated(plan.table.bronze, batch, before_ms)
    candidates = other_rows(
        touched, excluded_windows(changes, operator, plan.table.generation), operator
    )
    bronze = input_at(spark, plan.table.bronze, plan.table.pipeline, batch.last)
    inputs = {
        BRONZE: counted_rows(bronze, operator),
        **others_at(spark, operator, plan.table.warehouse, plan.table.pipeline, at),
    }
    streamed = streamed_operator(operator, exact=False)

    def compute(closed: pa.Table) -> None:
        streamed.recompute(inputs, closed).write.format("noop").mode("overwrite").save()

    failed = failing_among(compute, candidates)
    names = {*operator.identity, *operator.values, FAILURE}
    schema = pa.schema([field for field in schema_of(changes) if field.name in names])
    rows = verdict_rows(failed, in_bronze, schema)
    append_recomputed(
        plan.table.changes, rows, FAILED, plan.table.generation, plan.table.run_id, batch.number
    )
    return len(failed)


def _failed_batch(plan: Aggregate) -> tuple[BatchRead, int] | None:
    """The batch that is planned and not committed, and the watermark that the one before ran by;
    None where there is none, or it reads nothing and cannot fail for what it read before.

    None for the very first one too: nothing rests on the measures yet, so a corrected file is taken
    by the next run, which is better than windows that are set aside. That of a later generation
    reads anew what was computed then, by which it is known what of that fails.
    """
    checkpoint, seed = plan.table.checkpoint, plan.seed
    batch = checkpoint.last_batch("offsets")
    if batch is None or batch == checkpoint.last_batch("commits"):
        return None
    if batch == 0 and seed is None:
        return None
    others = others_published(plan.table.operator, plan.table.warehouse, {})
    if batch:
        before = read_to(checkpoint, batch - 1, others)
    else:
        begun = seed or Seed(bronze=-1)
        ends = {one.name: begun.others.get(one.name, -1) + 1 for one in others}
        before = ReadTo(begun.bronze + 1, 0, ends)
    now = read_to(checkpoint, batch, others)
    read = {one.name: (before.other_ends[one.name], now.other_ends[one.name] - 1) for one in others}
    first, last = before.bronze_end, now.bronze_end - 1
    if first > last and not plan.table.operator.traits.checks_closing:
        return None
    return BatchRead(batch, first, last, 0, now.watermark_ms, read), before.watermark_ms
