"""The Spark session of a job, with the settings that short scheduled runs need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tidemark.errors import EngineMissing
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE, kept_batches
from tidemark.pipeline.settings.settings import Settings, spark_conf
from tidemark.pipeline.settings.spark import REDACTION, redacted_too
from tidemark.pipeline.settings.state import PROVIDER, STATE_DEFAULTS, provider_class

_DELTA_CLASS = "io.delta.sql.DeltaSparkSessionExtension"

# Good for small scheduled runs; a pipeline may change these under `advanced.spark`.
DEFAULTS = STATE_DEFAULTS | {
    "spark.log.level": "WARN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Fixed by a query's first batch: few partitions mean few tasks and few state files.
    "spark.sql.shuffle.partitions": "2",
    # Re-planning costs more than it saves on a few thousand rows.
    "spark.sql.adaptive.enabled": "false",
    # Delta reads its own log with a shuffle of this many partitions (50 unless told).
    "spark.databricks.delta.snapshotPartitions": "1",
    # The JVM does not compile longer methods; without them a wide projection runs interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Else each call that builds a column also asks the JVM where in Python it stands: half of the
    # time that judging takes to plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The plan of a wide pipeline is longer than Spark likes to log.
    "spark.sql.debug.maxToStringFields": "1000",
}

# What correctness rests on; a pipeline cannot change these.
FIXED = {
    "spark.sql.extensions": _DELTA_CLASS,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # An overflow or a bad cast is an error, never a wrong number.
    "spark.sql.ansi.enabled": "true",
    # The stream's update mode is followed by a batch without data that frees state.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # INT96, Spark's own default, is read by delta-rs as another time outside 1677 to 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Rows are written as plain Parquet below a table's place, and then added to it.
    "spark.databricks.delta.formatCheck.enabled": "false",
    # A file that cannot be read is found and rejected, not passed over.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


StartSession = Callable[[Pipeline, Settings], SparkSession]


def start_session(pipeline: Pipeline, settings: Settings) -> SparkSession:
    """The session of this process, with Delta. Raises EngineMissing without Delta's jars."""
    builder = SparkSession.builder.appName(f"tidemark {pipeline.name}")
    for name, value in session_conf(pipeline, settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    _check_delta(spark)
    return spark


def session_conf(pipeline: Pipeline, settings: Settings) -> dict[str, str]:
    """Defaults, then settings, then the pipeline's own, then what must not change."""
    conf = {**DEFAULTS, **spark_conf(settings), **pipeline.advanced.spark}
    if pipeline.advanced.shuffle_partitions is not None:
        conf["spark.sql.shuffle.partitions"] = str(pipeline.advanced.shuffle_partitions)
    if pipeline.advanced.state.store is not None:
        conf[PROVIDER] = provider_class(pipeline.advanced.state.store)
    conf[REDACTION] = redacted_too(conf.get(REDACTION))
    conf[KEPT_BY_ENGINE] = str(kept_batches(pipeline, settings))
    return {**conf, **FIXED}


def _check_delta(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_DELTA_CLASS, False, loader)
    except Exception as error:
        raise EngineMissing(
            f"Spark was started without Delta: {_DELTA_CLASS} is not on the class path. "
            "Nothing was read or written. Load the environment that set-up wrote "
            "(`. .tidemark/env`), or submit with the Delta jars in spark.jars."
        ) from error
