"""The executors of a cluster, asked before the first batch whether they can do what a run needs.

Without this a run waits without an end where no executor comes, and fails in the middle of a
batch, with words that name another thing, where one lacks a jar or the driver's Python.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import ClusterBusy, EngineMissing
from tidemark.streaming.cluster.lacking import JARS_ON_ALL, PYTHON_ON_ALL, lacking, master_gone
from tidemark.version import told_version

_STATE = "Nothing was read or written."
# Spark's own way to load a class: it knows the jars that came with the application, too.
_LOADS = "try_reflect('org.apache.spark.util.Utils', 'classForName', '{}', false, false)"


def check_executors(spark: SparkSession, needed: Sequence[str], wait_seconds: int) -> None:
    """Ask executors for classes, Python and Tidemark, by one task for each of the cluster's cores.

    Raises EngineMissing, which says what is missing, and ClusterBusy where the
    master does not answer or no executor took a task for `wait_seconds`. An executor that comes
    later is not asked; what it lacks is told by the batch that fails (`lacking`).
    """
    _within(spark, wait_seconds, lambda: _check_classes(spark, needed))
    _within(spark, wait_seconds, lambda: _check_python(spark))


def _tasks(spark: SparkSession) -> DataFrame:
    number = max(2, spark.sparkContext.defaultParallelism)
    return spark.range(0, number, 1, number)


def _check_classes(spark: SparkSession, needed: Sequence[str]) -> None:
    asked = [f"{_LOADS.format(name)} IS NOT NULL AS c{n}" for n, name in enumerate(needed)]
    answers = _tasks(spark).selectExpr(*asked).collect()
    absent = [name for n, name in enumerate(needed) if not all(answer[n] for answer in answers)]
    if absent:
        raise EngineMissing(
            f"The executors of {spark.sparkContext.master} lack {', '.join(absent)}, which the "
            f"driver has. {_STATE} {JARS_ON_ALL}"
        )


def _check_python(spark: SparkSession) -> None:
    try:
        answers = _tasks(spark).mapInArrow(python_of_task, "host string, version string").collect()
    except (PySparkException, Py4JJavaError) as error:
        happened = f"No executor of {spark.sparkContext.master} could run Python. {_STATE}"
        if missing := lacking(error, happened):
            raise missing from error
        raise
    ours = told_version()
    if other := sorted({(row.host, row.version) for row in answers if row.version != ours}):
        hosts = ", ".join(f"{version} on {host}" for host, version in other)
        raise EngineMissing(
            f"The driver has Tidemark {ours}, and executors have {hosts}. {_STATE} What is "
            "behind the + tells builds apart: an image on that host, or the driver's, is an old "
            f"one. {PYTHON_ON_ALL}"
        )


def python_of_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The host that a task runs on, and its Tidemark by `told_version`; one row a task. Raises
    ModuleNotFoundError where a module is missing that large input is judged with."""
    import tidemark.streaming.ingest.task_files  # noqa: F401

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"host": [platform.node()], "version": [told_version()]})


def _within(spark: SparkSession, seconds: int, ask: Callable[[], None]) -> None:
    """Run jobs of Spark; ClusterBusy, and they are cancelled, where they do not end in time."""
    group = f"tidemark asks {uuid4()}"
    answer: Future[None] = Future()

    def work() -> None:
        spark.sparkContext.setJobGroup(group, "What the executors have", interruptOnCancel=True)
        try:
            ask()
        except Exception as error:  # noqa: BLE001  raised again by who waits
            answer.set_exception(error)
        else:
            answer.set_result(None)

    # A thread of Python's gets one of the JVM's of its own. As a daemon, it keeps no process alive.
    Thread(target=inheritable_thread_target(spark)(work), daemon=True).start()
    try:
        answer.result(seconds)
    except TimeoutError:
        with suppress(Py4JError):
            spark.sparkContext.cancelJobGroup(group)
        raise ClusterBusy(_busy(spark, seconds)) from None
    except (PySparkException, Py4JError) as error:
        if not spark.sparkContext._jsc.sc().isStopped():
            raise
        raise master_gone(spark.sparkContext.master) from error


def _busy(spark: SparkSession, seconds: int) -> str:
    context = spark.sparkContext
    address = context.getConf().get("spark.driver.host", "")
    return (
        f"No executor of {context.master} had a core free for this run for {seconds} s. {_STATE} "
        "Look at the master's page: are its workers there, and are their cores taken by others? "
        "Executors that come and go again do not reach the driver, which they know as "
        f"{address}: name an address that they reach as spark.driver.host in the settings or "
        "SPARK_LOCAL_IP in the driver's environment. How long is waited is `wait_seconds` under "
        "`cluster` in the settings. Running it again can help."
    )
