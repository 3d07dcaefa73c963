"""What has to be on the class path of driver and executors, for the stores that a run uses.

Source of the names: Delta's documentation for the extension; Hadoop's `FileSystem`, which finds a
scheme's class by the setting `fs.SCHEME.impl` or by a service file; Hadoop's module
`hadoop-aws`, whose streams and clients come with jars of their own.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemark.errors import EngineMissing
from tidemark.streaming.cluster.lacking import JARS_ON_ALL, lacking

DELTA_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
# What a file system needs besides its own class, and meets with its first request only.
_BESIDES = {
    "s3a": (
        "software.amazon.awssdk.services.s3.S3Client",
        "software.amazon.awssdk.transfer.s3.S3TransferManager",
    )
}
# The stream of Hadoop 3.5 unless the setting names another.
_ANALYTICS = "software.amazon.s3.analyticsaccelerator.S3SeekableInputStreamFactory"
_STREAM, _ANALYTICS_STREAM = "fs.s3a.input.stream.type", "analytics"
_STATE = "Nothing was read or written."


def needed_classes(spark: SparkSession, schemes: set[str]) -> tuple[str, ...]:
    """The classes that a run needs wherever it computes. EngineMissing where the driver's Hadoop
    knows none for a scheme."""
    jvm: Any = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    names = [DELTA_CLASS]
    for scheme in sorted(schemes):
        try:
            file_system = jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf)
        except Py4JJavaError as error:
            happened = f"Spark's driver cannot reach {scheme}: places. {_STATE}"
            if missing := lacking(error, happened):
                raise missing from error
            raise
        names += [file_system.getName(), *_BESIDES.get(scheme, ())]
        if scheme == "s3a" and conf.get(_STREAM, _ANALYTICS_STREAM) == _ANALYTICS_STREAM:
            names.append(_ANALYTICS)
    return tuple(names)


def check_driver(spark: SparkSession, schemes: set[str]) -> tuple[str, ...]:
    """The classes that a run needs; EngineMissing names those that the driver lacks."""
    check_delta(spark)
    needed = needed_classes(spark, schemes)
    if absent := [name for name in needed if not _has(spark, name)]:
        raise EngineMissing(f"Spark's driver lacks {', '.join(absent)}. {_STATE} {JARS_ON_ALL}")
    return needed


def check_delta(spark: SparkSession) -> None:
    """EngineMissing where Spark was started without Delta."""
    if not _has(spark, DELTA_CLASS):
        raise EngineMissing(
            f"Spark was started without Delta: {DELTA_CLASS} is not on the class path. "
            f"{_STATE} Load the environment that set-up wrote "
            "(`. .tidemark/env`), or submit with the Delta jars in spark.jars."
        )


def _has(spark: SparkSession, name: str) -> bool:
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True
