"""The engine's view of a file source: which file is in which batch, as its checkpoint has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import StorageUnavailable
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.streaming.cluster.lacking import lacking
from tidemark.streaming.failures import cause_of
from tidemark.streaming.sources.source import StreamedSource

# The engine passes over files that are so much older than the newest one, of those too that its
# log has (class FileStreamSource, `SeenFilesMap`): with all that a Long holds it never does.
_MAX_FILE_AGE = f"{2**63 - 1}ms"


@dataclass(frozen=True)
class StreamedFiles(StreamedSource):
    """Files by the engine's own file source."""

    placed: FilesSourceHandle

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        limit = self.placed.pipeline.advanced.max_files_per_batch
        return stream_of_files(spark, self.placed.files, limit)

    def is_from(self, parts: Sequence[str]) -> Column:
        return F.col("_file").isin(list(parts))


def stream_of_files(
    spark: SparkSession, source: SourceFiles, max_files_per_batch: int | None
) -> DataFrame:
    """The source as a stream. Only its planning of batches is used, its rows are not.

    Raises StorageUnavailable where the folder cannot be listed, EngineMissing where Spark has no
    jars for its store.
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
        if missing := lacking(error, f"{place} could not be listed. Nothing was read."):
            raise missing from error
        raise StorageUnavailable(f"{place} could not be listed: {_listing_fault(error)}") from error


def _listing_fault(error: Exception) -> str:
    _, colon, name = str(error).partition("Relative path in absolute URI: ")
    if colon:
        return (
            f"the file {name.strip()} has a colon in its name, which Hadoop does not read. "
            "Nothing was read. Rename the file, and have files landed without colons."
        )
    return f"{cause_of(error)}. Nothing was read."
