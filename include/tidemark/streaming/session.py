"""The Spark session of a job, with the settings that short scheduled runs need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemark.errors import EngineMissing, TidemarkError
from tidemark.pipeline.fold_code import RUN_SEED
from tidemark.pipeline.granted import check_granted
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.kept_batches import KEPT_BY_ENGINE, kept_batches
from tidemark.pipeline.settings.masters import is_local_master
from tidemark.pipeline.settings.settings import Settings, spark_conf
from tidemark.pipeline.settings.spark import REDACTION, redacted_too, tuned
from tidemark.pipeline.settings.state import PROVIDER, STATE_DEFAULTS, provider_class
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.streaming.cluster.class_path import DELTA_CLASS, check_driver
from tidemark.streaming.cluster.lacking import java_causes, lacking, master_gone

# Good for small scheduled runs; the settings may change these, and a pipeline some of them.
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
    # Else a task that ends for lack of stack takes its JVM along, in local mode the driver's, and
    # nobody tells why.
    "spark.executor.killOnFatalError.depth": "0",
    # The plan of a wide pipeline is longer than Spark likes to log.
    "spark.sql.debug.maxToStringFields": "1000",
}

# What correctness rests on; a pipeline cannot change these.
FIXED = {
    "spark.sql.extensions": DELTA_CLASS,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A fold's timer gives a worker its key's instants without a zone, in that of the process
    # (`TimestampType.fromInternal` of pyspark/sql/types.py, and seen).
    "spark.executorEnv.TZ": "UTC",
    # An overflow or a bad cast is an error, never a wrong number.
    "spark.sql.ansi.enabled": "true",
    # Else Spark replaces `${…}` in any SQL, values of rows and patterns as well, by settings or
    # variables of the environment (`VariableSubstitution`).
    "spark.sql.variable.substitute": "false",
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
    """The session of this process, on a cluster that has what a run needs.

    Raises PipelineInvalid for what the settings do not grant, EngineMissing where the driver lacks
    Delta's jars or those of the root's store, or an executor lacks them or the driver's Python;
    ClusterBusy where no executor comes.
    """
    check_granted(pipeline, settings)
    return checked_session(f"tidemark {pipeline.name}", session_conf(pipeline, settings), settings)


def checked_session(name: str, conf: Mapping[str, str], settings: Settings) -> SparkSession:
    """A session of this name and with these settings; errors as those of `start_session`."""
    builder = SparkSession.builder.appName(name)
    for setting, value in conf.items():
        builder = builder.config(setting, value)
    try:
        spark = builder.getOrCreate()
    except Py4JJavaError as error:
        if known := _not_started(error, conf):
            raise known from error
        raise
    # PySpark takes the driver's own for its workers: a set of texts would come in another order
    # wherever that is another.
    spark.sparkContext.environment["PYTHONHASHSEED"] = RUN_SEED
    needed = check_driver(spark, _schemes(settings))
    if not is_local_master(spark.conf.get("spark.master") or ""):
        from tidemark.streaming.cluster.executors import check_executors

        check_executors(spark, needed, settings.cluster.wait_seconds)
    return spark


def _not_started(error: Py4JJavaError, conf: Mapping[str, str]) -> TidemarkError | None:
    """Why there is no session, where that is known."""
    causes = "\n".join(java_causes(error))
    if "stopped SparkContext" in causes:
        context = SparkContext._active_spark_context
        return master_gone(None if context is None else context.master)
    logs = conf.get("spark.eventLog.dir")
    if logs and "java.io.FileNotFoundException" in causes:
        return EngineMissing(
            f"Spark did not start: the folder of its event logs, {logs}, is not there. Nothing was "
            "read or written. Make it (on an object store an empty object whose name ends with a "
            "slash), or leave out spark.eventLog.enabled."
        )
    return lacking(error, "Spark did not start. Nothing was read or written.")


def _schemes(settings: Settings) -> set[str]:
    """Hadoop's names of the stores that a run writes to, but for the local file system."""
    return set() if settings.is_local else {urlsplit(spark_uri(settings.root)).scheme}


def session_conf(pipeline: Pipeline, settings: Settings) -> dict[str, str]:
    """Defaults, then settings, then the pipeline's own, then what must not change."""
    conf = {**DEFAULTS, **spark_conf(settings), **tuned(pipeline.advanced.spark)}
    if pipeline.advanced.shuffle_partitions is not None:
        conf["spark.sql.shuffle.partitions"] = str(pipeline.advanced.shuffle_partitions)
    if pipeline.advanced.state.store is not None:
        conf[PROVIDER] = provider_class(pipeline.advanced.state.store)
    conf[REDACTION] = redacted_too(conf.get(REDACTION))
    conf[KEPT_BY_ENGINE] = str(kept_batches(pipeline, settings))
    return {**conf, **FIXED}


def bare_conf(settings: Settings) -> dict[str, str]:
    """Defaults, then settings, then what must not change: for a session without a pipeline."""
    conf = {**DEFAULTS, **spark_conf(settings)}
    conf[REDACTION] = redacted_too(conf.get(REDACTION))
    return {**conf, **FIXED}
