"""The first messages of a topic as lines of a file, for a look at them."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.errors import SampleUnusable, TidemarkError
from tidemark.sources.kafka.slices import KafkaSlice
from tidemark.sources.source import AS_READ, PartUnreadable


def lines_of(messages: KafkaSlice) -> Iterator[bytes]:
    """Those that a judge reads; messages without a value or too large have no line.

    Of a value of several lines the ends become blanks that JSON takes for blanks too: a carriage
    return, which is as wrong within a text as they are.
    """
    try:
        for piece in messages.lines():
            for line in piece[AS_READ].to_pylist():
                if line is not None:
                    yield line.replace(b"\n", b"\r")
    except (TidemarkError, PartUnreadable) as error:
        raise SampleUnusable(f"{messages.part} could not be read: {error}") from error
