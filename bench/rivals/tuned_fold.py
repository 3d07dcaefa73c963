"""Episodes of each key by the engine's own state and timers; nothing is repaired.

    SPARK_SUBMIT_OPTS='…the JVM flags of .tidemark/env…' spark-submit tuned_fold.py INPUT ROOT

An episode's rows lie no further apart than two minutes; when the watermark has passed that, it is
emitted, with the number of its rows and the sum of their amounts. Rows come out of order: the
state of a key is its open episodes, and a row can join two of them. With the settings of
`tuned.py`, and RocksDB, which timers need, with changes instead of a snapshot for each batch.
"""

import sys

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tuned_session import STREAMING, ingest, tuned_session

source, root = sys.argv[1:]
raw, gold, checkpoints = f"{root}/raw", f"{root}/gold", f"{root}/checkpoints"

TIMEOUT = 120_000_000  # microseconds, as all times here; timers have milliseconds
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
spark = tuned_session("tuned_fold", {**STREAMING, **ROCKSDB})


class Episodes(StatefulProcessor):
    """The open episodes of a key in their order, and one timer: where the first of them ends."""

    def init(self, handle):
        self.handle = handle
        self.state = handle.getListState(
            "open", "start bigint, last bigint, events bigint, amount bigint"
        )

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        before = [tuple(one) for one in self.state.get()]
        # A row is an episode of its own, until it meets another.
        alone = ((row.time, row.time, 1, row.amount) for row in rows)
        after = []
        for start, last, events, amount in sorted([*before, *alone]):
            if after and start <= after[-1][1] + TIMEOUT:
                first, end, count, total = after[-1]
                after[-1] = (first, max(end, last), count + events, total + amount)
            else:
                after.append((start, last, events, amount))
        self.state.put(after)
        old = due(before[0]) if before else None
        if old != due(after[0]):
            if old is not None:
                self.handle.deleteTimer(old)
            self.handle.registerTimer(due(after[0]))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803
        watermark = timerValues.getCurrentWatermarkInMs()
        episodes = [tuple(one) for one in self.state.get()]
        still_open = [one for one in episodes if due(one) > watermark]
        if still_open:
            self.state.put(still_open)
            self.handle.registerTimer(due(still_open[0]))
        else:
            self.state.clear()
        for start, _, events, amount in episodes[: len(episodes) - len(still_open)]:
            yield Row(start=start, key=key[0], events=events, amount=amount)

    def close(self):
        pass


def due(episode):
    return -(-(episode[1] + TIMEOUT) // 1_000)


ingest(spark, source, raw, f"{checkpoints}/raw")

episodes = (
    spark.readStream.format("delta")
    .load(raw)
    .withWatermark("at", "10 minutes")
    .select("key", "amount", F.unix_micros("at").alias("time"), "at")
    .groupBy("key")
    .transformWithState(
        Episodes(), "start bigint, key string, events bigint, amount bigint", "append", "EventTime"
    )
    .select(F.timestamp_micros("start").alias("window_start"), "key", "events", "amount")
)
(
    episodes.writeStream.outputMode("append")
    .format("delta")
    .option("checkpointLocation", f"{checkpoints}/gold")
    .trigger(availableNow=True)
    .start(gold)
    .awaitTermination()
)
spark.stop()
