"""What a cluster lacks, by the words of the engine, as they were met."""

from __future__ import annotations

import pytest

from tidemark.errors import EngineMissing
from tidemark.streaming.cluster.lacking import lacking

HAPPENED = "The query ingest failed."
LACKS = {
    "java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
    "org.apache.hadoop.fs.s3a.S3AFileSystem not found": (
        "The class org.apache.hadoop.fs.s3a.S3AFileSystem is not on the class path."
    ),
    "java.lang.NoClassDefFoundError: software/amazon/awssdk/core/exception/SdkException": (
        "The class software.amazon.awssdk.core.exception.SdkException is not on the class path."
    ),
    'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"': (
        "Hadoop knows no file system for `gs:`."
    ),
    "java.lang.ClassCastException: cannot assign instance of java.lang.invoke.SerializedLambda to "
    "field org.apache.spark.sql.catalyst.expressions.ScalaUDF.f of type scala.Function1": (
        "The executors lack jars that the driver has"
    ),
    "ModuleNotFoundError: No module named 'tidemark'": "The executors' Python has no module",
    "ModuleNotFoundError: No module named 'numpy'": "has no module numpy.",
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: "
    "3.11, PySpark cannot run with different minor versions.": "worker has different version: 3.12",
    'java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory': (
        "The executors have no python3.11"
    ),
}


@pytest.mark.parametrize("words", LACKS)
def test_what_is_missing_is_named_with_what_to_do_and_no_retry_helps(words: str) -> None:
    found = lacking(RuntimeError(f"Job aborted.\nCaused by: {words}\n\tat x.Y.z"), HAPPENED)
    assert isinstance(found, EngineMissing)
    assert not found.retry_can_help
    assert str(found).startswith(HAPPENED)
    assert LACKS[words] in str(found)
    assert "SPARK_DIST_CLASSPATH" in str(found) or "PYSPARK_PYTHON" in str(found)


@pytest.mark.parametrize(
    "words",
    [
        "java.io.FileNotFoundException: s3a://b/x",
        "[DIVIDE_BY_ZERO] Division by zero.",
        "ModuleNotFoundError: No module named 'own_fold'",
        "java.lang.ClassCastException: class java.lang.Long cannot be cast",
    ],
)
def test_what_is_about_something_else_is_left_to_others(words: str) -> None:
    assert lacking(RuntimeError(words), HAPPENED) is None
