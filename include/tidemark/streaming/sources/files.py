"""The engine's view of a file source: which files there are, and their lines.

The file source plans the batches (which file is in which batch, remembered in the checkpoint),
and the lines of a batch are read from exactly those files. Reading them by name instead of
through the stream's own DataFrame is what lets one bad file be found and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import StorageUnavailable
from tidemark.pipeline.settings.storage_options import is_local, spark_uri
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.batch_files import leave_out, no_longer_readable, unreadable
from tidemark.sources.files.placed import PlacedFiles
from tidemark.sources.source import PartVerdict, Reading
from tidemark.streaming.sources.source import StreamedSource

# The engine passes over files older than this, counted from the newest: never (270 years).
_MAX_FILE_AGE = "100000d"
# What a reader says when it is the file that is at fault. Anything else may be the store, the
# disk or the memory, and must not reject a file that is good.
_FILE_FAULTS = (
    "java.io.EOFException",
    "java.util.zip.",
    "FILE_NOT_EXIST",
    "PATH_NOT_FOUND",
    "java.io.FileNotFoundException",
)
_LOCAL_FILE_FAULTS = (
    *_FILE_FAULTS,
    "java.io.IOException",
    "AccessControlException",
    "java.net.URISyntaxException",  # a colon in the name
)


@dataclass(frozen=True)
class StreamedFiles(StreamedSource):
    """Files by the engine's own file source."""

    placed: PlacedFiles

    def stream(self, spark: SparkSession) -> DataFrame:
        limit = self.placed.pipeline.advanced.max_files_per_batch
        return stream_of_files(spark, self.placed.files, limit)

    def lines(self, spark: SparkSession, parts: Sequence[str]) -> DataFrame:
        return read_source_lines(spark, parts)

    def without_unreadable(
        self, spark: SparkSession, ingest: Checkpoint, batch: int, reading: Reading, repeated: bool
    ) -> Reading:
        bad = find_unreadable(spark, reading.read)
        return leave_out(reading, [no_longer_readable(one) for one in bad] if repeated else bad)

    def is_from(self, parts: Sequence[str]) -> Column:
        return F.col("_file").isin(list(parts))


def stream_of_files(
    spark: SparkSession, source: SourceFiles, max_files_per_batch: int | None
) -> DataFrame:
    """The source as a stream. Only its planning of batches is used, its rows are not.

    Raises StorageUnavailable where the folder cannot be listed.
    """
    reader = spark.readStream.format("text").option("maxFileAge", _MAX_FILE_AGE)
    if max_files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", max_files_per_batch)
    place = source.folder if source.recursive else f"{source.folder}/{source.name}"
    if source.recursive:
        reader = reader.option("recursiveFileLookup", "true").option("pathGlobFilter", source.name)
    try:
        return reader.load(spark_uri(place))
    except (PySparkException, Py4JJavaError) as error:
        raise StorageUnavailable(f"{place} could not be listed: {_listing_fault(error)}") from error


def read_source_lines(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    """The lines of these files: `_value` (the line's bytes as they are) and `_file`."""
    reader = spark.read.option("lineSep", "\n").option("recursiveFileLookup", "true")
    path = F.col("_metadata.file_path")
    # Hadoop writes local URIs as file:/x too. No regular expression: it is asked for each line.
    short = path.startswith("file:/") & ~path.startswith("file://")
    uri = F.when(short, F.concat(F.lit("file://"), F.substring(path, 6, 2**31 - 1)))
    return reader.text([_pattern_of(uri) for uri in uris]).select(
        F.col("value").alias("_value"), uri.otherwise(path).alias("_file")
    )


def find_unreadable(spark: SparkSession, uris: Sequence[str]) -> list[PartVerdict]:
    """Read the files in halves until each that cannot be read to its end is found alone.

    Raises the engine's error where the fault is not the file's own.
    """
    try:
        read_source_lines(spark, uris).write.format("noop").mode("append").save()
    except (PySparkException, Py4JJavaError) as error:
        if len(uris) > 1:
            half = len(uris) // 2
            return find_unreadable(spark, uris[:half]) + find_unreadable(spark, uris[half:])
        return [unreadable(uris[0], _fault(uris[0], error))]
    return []


def _listing_fault(error: Exception) -> str:
    _, colon, name = str(error).partition("Relative path in absolute URI: ")
    if colon:
        return (
            f"the file {name.strip()} has a colon in its name, which Hadoop does not read. "
            "Nothing was read. Rename the file, and have files landed without colons."
        )
    return f"{_short(_java_stack(error).splitlines())}. Nothing was read."


def _fault(uri: str, error: Exception) -> str:
    text = str(error) + str(getattr(error, "_stackTrace", "") or "") + _java_stack(error)
    faults = _LOCAL_FILE_FAULTS if is_local(uri) else _FILE_FAULTS
    if not any(fault in text for fault in faults):
        raise error
    if "Permission denied" in text:
        return "It may not be read (permission denied)"
    if "FILE_NOT_EXIST" in text or "PATH_NOT_FOUND" in text or "FileNotFound" in text:
        return "It was gone between listing and reading"
    causes = [line for line in text.splitlines() if "Exception" in line and "java" in line]
    return f"It cannot be read to its end ({_short(causes)})"


def _java_stack(error: Exception) -> str:
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if origin is None:
        return ""
    lines: list[str] = []
    cause = origin
    while cause is not None and len(lines) < 10:
        lines.append(cause.toString())
        cause = cause.getCause()
    return "\n" + "\n".join(lines)


def _short(causes: list[str]) -> str:
    return causes[-1].strip().removeprefix("Caused by: ")[:200] if causes else "no cause given"


def _pattern_of(uri: str) -> str:
    """A file's path for a reader that takes patterns.

    With `__globPaths__` off, Spark 4.2 reads every other file of the list twice as soon as
    one has a pattern's character in its name; escaped, each is read once.
    """
    return "".join(f"\\{c}" if c in "\\{}[]*?" else c for c in unquote(uri))
