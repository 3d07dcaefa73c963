"""What a source is to Spark: the stream that plans its batches.

Rows are read by the names of their parts (`SourceHandle.slices`), not through the stream's own
DataFrame: that is what lets one bad part be found and left out, and a batch be read again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from math import ceil

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import StorageUnavailable
from tidemark.pipeline.delta_columns import FILE, VERSION
from tidemark.pipeline.kafka_columns import OFFSET, PARTITION, TOPIC
from tidemark.pipeline.model import Advanced
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.pipeline.source_files import SourceFiles
from tidemark.sources.delta.handle import DeltaSourceHandle
from tidemark.sources.delta.offsets import DeltaPart
from tidemark.sources.files.handle import FilesSourceHandle, passed_over
from tidemark.sources.files.unread import files_to_take, unread_files
from tidemark.sources.kafka.handle import KafkaSourceHandle
from tidemark.sources.kafka.offsets import OffsetRange, offset_text
from tidemark.sources.source import SourceHandle
from tidemark.streaming.cluster.lacking import lacking
from tidemark.streaming.failures import cause_of
from tidemark.streaming.sources.planned import planned_stream

# The engine passes over files that are so much older than the newest one, of those too that its
# log has (class FileStreamSource, `SeenFilesMap`): with all that a Long holds it never does.
_MAX_FILE_AGE = f"{2**63 - 1}ms"


@dataclass(frozen=True)
class StreamedSource(ABC):
    """The Spark half of a source; `placed` is the other."""

    placed: SourceHandle

    @abstractmethod
    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        """The source as a stream, which goes on from the ingest's checkpoint. Only its planning of
        batches is used, its rows are not."""

    @abstractmethod
    def is_from(self, parts: Sequence[str]) -> Column:
        """Does a row of bronze come from one of these parts?"""

    def batches_ahead(self, ingest: Checkpoint) -> int:
        """About how many batches the limits of the pipeline make of what is unread: one, where the
        kind knows of none. Raises what it meets."""
        return 1

    def nothing_passed_over(self, ingest: Checkpoint) -> AbstractContextManager[None]:
        """Around a query of the ingest: once it ended well, raises SourcePassedOver where something
        is unread that the store listed before, and names the parts, why, and what to do. For kinds
        of which the engine decides what is read."""
        return nullcontext()


@dataclass(frozen=True)
class StreamedFiles(StreamedSource):
    """Files by the engine's own file source: which file is in which batch, its checkpoint says."""

    placed: FilesSourceHandle

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        return stream_of_files(spark, self.placed.files, self.placed.pipeline.advanced)

    def is_from(self, parts: Sequence[str]) -> Column:
        return F.col("_file").isin(list(parts))

    def batches_ahead(self, ingest: Checkpoint) -> int:
        unread, limits = self.placed.lag(ingest), self.placed.pipeline.advanced
        of_files = ceil(unread.files / (limits.max_files_per_batch or unread.files or 1))
        return max(of_files, ceil(unread.bytes / (limits.max_bytes_per_batch or unread.bytes or 1)))

    @contextmanager
    def nothing_passed_over(self, ingest: Checkpoint) -> Iterator[None]:
        files, options = self.placed.files, self.placed.settings.storage_options
        listed = frozenset(files_to_take(files, options))
        yield
        if listed and (found := sorted(listed.intersection(unread_files(files, ingest)))):
            raise passed_over(files, options, found)


@dataclass(frozen=True)
class StreamedTopics(StreamedSource):
    """Topics, whose batches the driver planned, by offsets as `sources/kafka/offsets.py` says."""

    placed: KafkaSourceHandle

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        self.placed.prepare(ingest)
        steps = [json.loads(offset_text(one)) for one in self.placed.steps(ingest)]
        return planned_stream(spark, steps)

    def batches_ahead(self, ingest: Checkpoint) -> int:
        return len(self.placed.steps(ingest))

    def is_from(self, parts: Sequence[str]) -> Column:
        return _any(_is_in_range(OffsetRange.of(part)) for part in parts)


@dataclass(frozen=True)
class StreamedTable(StreamedSource):
    """A table, whose batches the driver planned, by versions as `sources/delta/offsets.py` says."""

    placed: DeltaSourceHandle

    def stream(self, spark: SparkSession, ingest: Checkpoint) -> DataFrame:
        self.placed.prepare(ingest)
        steps = [json.loads(one.text) for one in self.placed.steps(ingest)]
        return planned_stream(spark, steps)

    def batches_ahead(self, ingest: Checkpoint) -> int:
        return len(self.placed.steps(ingest))

    def is_from(self, parts: Sequence[str]) -> Column:
        return _any(_is_in_part(DeltaPart.of(part)) for part in parts)


STREAMED: dict[type[SourceHandle], type[StreamedSource]] = {
    FilesSourceHandle: StreamedFiles,
    KafkaSourceHandle: StreamedTopics,
    DeltaSourceHandle: StreamedTable,
}


def streamed_source(placed: SourceHandle) -> StreamedSource:
    """The Spark half of a source, of its kind."""
    return STREAMED[type(placed)](placed)


def stream_of_files(spark: SparkSession, source: SourceFiles, limits: Advanced) -> DataFrame:
    """The source as a stream. Only its planning of batches is used, its rows are not.

    Raises StorageUnavailable where the folder cannot be listed, EngineMissing where Spark has no
    jars for its store.
    """
    reader = spark.readStream.format("text").option("maxFileAge", _MAX_FILE_AGE)
    if limits.max_files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", limits.max_files_per_batch)
    if limits.max_bytes_per_batch is not None:
        reader = reader.option("maxBytesPerTrigger", limits.max_bytes_per_batch)
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


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(Column.__or__, conditions, F.lit(False))


def _is_in_range(one: OffsetRange) -> Column:
    own = (F.col(TOPIC) == one.topic) & (F.col(PARTITION) == one.partition)
    last = F.lit(True) if one.last is None else F.col(OFFSET) <= one.last
    return own & (F.col(OFFSET) >= one.first) & last


def _is_in_part(part: DeltaPart) -> Column:
    version = F.col(VERSION)
    if part.file:
        return (version == part.version) & (F.col(FILE) == part.file)
    if part.is_open:
        return version >= part.version
    return version.between(part.version, part.version if part.last is None else part.last)
