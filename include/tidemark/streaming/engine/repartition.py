"""Have the engine bring a query's state to another number of partitions.

PySpark's manager of checkpoints (4.2, `StreamingCheckpointManager.repartition`) plans a batch whose
offsets are those of the last one with another `spark.sql.shuffle.partitions`, writes all stores
anew as the version that this batch leaves, and commits it. Files of before stay as they are.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidemark.commit_point import commit_point
from tidemark.errors import EngineChanged
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.storage.file_place import FilePlace

_MANAGER = "_streamingCheckpointManager"


def check_repartitions(spark: SparkSession) -> None:
    """EngineChanged where this Spark has no such manager. Changes nothing."""
    if not hasattr(getattr(spark, _MANAGER, None), "repartition"):
        raise EngineChanged(
            f"Spark {spark.version} has no `SparkSession.{_MANAGER}.repartition`, which Spark 4.2 "
            "has. Nothing was changed. A new generation begins with the partitions of the file: "
            "`tidemark migrate --rebuild`."
        )


@commit_point(
    "state repartitioned",
    after_a_kill="before: the state is as it was, and no run starts; in the middle and after: the "
    "batch of the repartition is planned, and a repetition has the engine finish it, or compares",
)
def repartition(spark: SparkSession, checkpoint: FilePlace, partitions: int) -> None:
    """Bring the state after the last committed batch to so many partitions, or finish what was
    begun. Raises what the engine raises; the logs may have the planned batch then."""
    # The engine's coordinator of stores starts with this list.
    assert spark.streams.active is not None
    checkpoint.fence()
    manager: Any = getattr(spark, _MANAGER)
    manager.repartition(spark_uri(checkpoint.uri), partitions, enforce_exactly_once_sink=True)
