"""Which Spark half a source has."""

from __future__ import annotations

from tidemark.sources.delta.placed import PlacedTable
from tidemark.sources.files.placed import PlacedFiles
from tidemark.sources.kafka.placed import PlacedTopics
from tidemark.sources.source import PlacedSource
from tidemark.streaming.sources.delta import StreamedTable
from tidemark.streaming.sources.files import StreamedFiles
from tidemark.streaming.sources.kafka import StreamedTopics
from tidemark.streaming.sources.source import StreamedSource

STREAMED: dict[type[PlacedSource], type[StreamedSource]] = {
    PlacedFiles: StreamedFiles,
    PlacedTopics: StreamedTopics,
    PlacedTable: StreamedTable,
}


def streamed_source(placed: PlacedSource) -> StreamedSource:
    """The Spark half of a source, of its kind."""
    return STREAMED[type(placed)](placed)
