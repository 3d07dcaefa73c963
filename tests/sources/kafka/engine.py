"""The engine's part of a stream that was planned before it began, without an engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tidemark.sources.kafka.offsets import Offset, offset_of, offset_text
from tidemark.streaming.sources.planned import _Planned


def batches_run(steps: Sequence[Offset], before: Offset) -> Iterator[Offset]:
    """The offsets of the batches that are run behind the offset `before`."""
    reader = _Planned([json.loads(offset_text(one)) for one in steps])
    start = json.loads(offset_text(before))
    while (end := reader.latestOffset(start, ReadAllAvailable())) != start:
        yield offset_of(json.dumps(end), "here")
        start = end
