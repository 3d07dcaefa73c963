"""Which Spark half a source has."""

from __future__ import annotations

from tidemark.sources.delta.handle import DeltaSourceHandle
from tidemark.sources.files.handle import FilesSourceHandle
from tidemark.sources.kafka.handle import KafkaSourceHandle
from tidemark.sources.source import SourceHandle
from tidemark.streaming.sources.delta import StreamedTable
from tidemark.streaming.sources.files import StreamedFiles
from tidemark.streaming.sources.kafka import StreamedTopics
from tidemark.streaming.sources.source import StreamedSource

STREAMED: dict[type[SourceHandle], type[StreamedSource]] = {
    FilesSourceHandle: StreamedFiles,
    KafkaSourceHandle: StreamedTopics,
    DeltaSourceHandle: StreamedTable,
}


def streamed_source(placed: SourceHandle) -> StreamedSource:
    """The Spark half of a source, of its kind."""
    return STREAMED[type(placed)](placed)
