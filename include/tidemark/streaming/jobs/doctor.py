"""`spark-submit`'s entry for a look at the engine: does Spark start, reach the store, and have what
a run needs on the driver and on the executors?

Exit codes as in `entry.py`. The result file says the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidemark.errors import EngineMissing
from tidemark.pipeline.settings.masters import is_local_master
from tidemark.pipeline.settings.settings import Settings, load_settings
from tidemark.pipeline.settings.storage_options import delta_options, spark_uri
from tidemark.runs.requests import EngineRequest
from tidemark.runs.results.looks import EngineResult
from tidemark.storage.files import remove_folder
from tidemark.storage.result_file import RunError, write_result
from tidemark.streaming.jobs.entry import job_exit_code, reported
from tidemark.streaming.progress import Progress
from tidemark.streaming.session import bare_conf, checked_session

_ROWS = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Look at the engine; the exit code. Never raises for an error that it can report."""
    request = EngineRequest.read(argv)
    settings = load_settings(request.settings)
    result = look_at_engine(settings, Progress("doctor"))
    write_result(request.result, result, settings.storage_options)
    return job_exit_code(result.error)


def look_at_engine(settings: Settings, progress: Progress) -> EngineResult:
    """Start a session, and write a small Delta table below the root, which delta-rs then reads; it
    is removed. What was found, errors included."""
    started = datetime.now(UTC)
    found: tuple[str, ...] = ()
    error: RunError | None = None
    try:
        spark = checked_session("tidemark doctor", bare_conf(settings), settings)
        found = tuple(_facts(spark))
        _write_and_read(spark, settings)
    except Exception as failure:  # noqa: BLE001  whatever it is, the result says it
        error = reported(failure, progress)
    return EngineResult(started_at=started, ended_at=datetime.now(UTC), found=found, error=error)


def _facts(spark: SparkSession) -> list[str]:
    master = spark.conf.get("spark.master") or ""
    context = spark.sparkContext
    driver = spark.conf.get("spark.driver.host") or "an unknown address"
    facts = [f"Spark {spark.version}, master {master}, driver at {driver}"]
    if not is_local_master(master):
        facts.append(f"{context.defaultParallelism} cores; jars, Python and Tidemark as here")
    return facts


def _write_and_read(spark: SparkSession, settings: Settings) -> None:
    folder = f"{settings.root}/.tidemark-doctor-{uuid4()}"
    try:
        spark.range(_ROWS).write.format("delta").save(spark_uri(folder))
        read = DeltaTable(
            folder, storage_options=delta_options(settings.storage_options)
        ).to_pyarrow_dataset()
        if (rows := read.count_rows()) != _ROWS:
            raise EngineMissing(
                f"Spark wrote {_ROWS} rows to {folder}, and delta-rs reads {rows} there: they do "
                "not reach the same place. Compare the storage options with the settings that "
                "Spark has of its own (spark-defaults.conf)."
            )
    finally:
        _remove_log(spark, folder)
        remove_folder(folder, settings.storage_options)


def _remove_log(spark: SparkSession, folder: str) -> None:
    """By Spark, which made it: S3A keeps an empty folder as an object `folder/`, a name that
    obstore cannot say. Before the data files, for S3A makes such an object of a folder that it
    empties."""
    # Where this fails, what was tried before failed too, and is told.
    with suppress(Py4JError):
        jvm: Any = spark.sparkContext._jvm
        log = jvm.org.apache.hadoop.fs.Path(f"{spark_uri(folder)}/_delta_log")
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        log.getFileSystem(conf).delete(log, True)


if __name__ == "__main__":
    sys.exit(main())
