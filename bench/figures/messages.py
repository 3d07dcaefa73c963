"""Messages of a topic in JSON and in Avro, read from a broker and judged, without Spark."""

from __future__ import annotations

import io
import json
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import fastavro
from matplotlib.axes import Axes

from bench.drawing import bars
from bench.figure import Figure, Goal
from bench.figures.formats import BATCH_TIME_MS, COLUMNS, rows_of
from bench.measured import spread
from bench.sizes import Sizes
from bench.topics import PARTITIONS, Topic, topic_of
from tidemark.judge.rules import rules_of
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.sources.kafka.messages import as_lines
from tidemark.sources.kafka.offsets import OffsetRange
from tidemark.sources.kafka.slices import KafkaSlice, in_slices
from tidemark.sources.kafka.values import schema_text
from tidemark.sources.kinds import row_origin
from tidemark.streaming.ingest.judged_slices import BatchRules, judge_slices

_TIME = {"type": "long", "logicalType": "timestamp-millis"}
# By the name of how values are written: the types of the fields in Avro.
_FORMS: Mapping[str, Sequence[Any]] = {
    "JSON": (),
    "Avro": (_TIME, "string", "string", "int", "double"),
    "Avro, any field may be null": [
        ["null", kind] for kind in (_TIME, "string", "string", "int", "double")
    ],
    "Avro, times as text": ("string", "string", "string", "int", "double"),
}
# Of JSON's CPU seconds, what a message of Avro takes.
_MOST = 1.3
_MOST_BYTES = 16 * 1024 * 1024


def measure(sizes: Sizes, folder: Path) -> list[Figure]:
    """CPU of this process for each message, one form after the other, each from a topic of its
    own."""
    messages = sizes.kafka[0]
    found: dict[str, dict[str, list[float]]] = {}
    for place, name in enumerate(_FORMS):
        with topic_of(_values(name, messages), folder / f"broker-{place}") as topic:
            found[name] = _measured(name, topic, messages, sizes)
    return [_figure(found, messages)]


def _schema(name: str) -> dict[str, Any]:
    fields = zip(COLUMNS, _FORMS[name], strict=True)
    described = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": "row", "fields": described}


def _values(name: str, messages: int) -> Iterator[bytes]:
    schema = fastavro.parse_schema(_schema(name)) if _FORMS[name] else None
    for row in rows_of(messages):
        if schema is None:
            yield json.dumps(row, separators=(",", ":")).encode()
            continue
        of_text = _FORMS[name][0] == "string"
        out = io.BytesIO()
        at = row["at"] if of_text else datetime.fromisoformat(row["at"])
        fastavro.schemaless_writer(out, schema, {**row, "at": at})
        yield struct.pack(">bI", 0, 1) + out.getvalue()


def _measured(name: str, topic: Topic, messages: int, sizes: Sizes) -> dict[str, list[float]]:
    pipeline = _pipeline("avro" if _FORMS[name] else "json")
    schemas: dict[str, str | None] = {"1": None}
    if _FORMS[name]:
        schemas = {"1": schema_text("AVRO", json.dumps(_schema(name)), {})}
    ranges = [
        OffsetRange(topic.name, number, 0, (messages - number + PARTITIONS - 1) // PARTITIONS - 1)
        for number in range(PARTITIONS)
    ]
    lines = as_lines(pipeline, _MOST_BYTES, schemas)
    options = {"bootstrap.servers": topic.servers, "isolation.level": "read_committed"}
    slices = [KafkaSlice(one, "bench", options, lines) for one in in_slices(ranges)]
    steps: Mapping[str, Callable[[], int]] = {
        "read and judged": lambda: _judged(pipeline, slices),
        "read alone": lambda: sum(len(some) for one in slices for some in one.messages()),
    }
    costs: dict[str, list[float]] = {what: [] for what in steps}
    for _ in range(sizes.warm_ups + max(3, sizes.repetitions)):
        for what, step in steps.items():
            begin = time.process_time()
            if (number := step()) != messages:
                raise AssertionError(f"{what}: {number:,} of {messages:,} messages of {name}")
            costs[what].append((time.process_time() - begin) / messages * 1e6)
    return {what: some[sizes.warm_ups :] for what, some in costs.items()}


def _pipeline(form: str) -> Pipeline:
    source = {
        "kafka": {"topic": "events", "connection": "bench"}, "format": form,
        "columns": COLUMNS, "event_time": {"column": "at"},
    }  # fmt: skip
    table = {"window": {"length": "10 minutes"}, "measures": {"rows_seen": "count(*)"}}
    content = {"source": source, "watermark": {"delay": "10 minutes"}, "tables": {"all": table}}
    return pipeline_from_mapping("judged", content)


def _judged(pipeline: Pipeline, slices: Sequence[KafkaSlice]) -> int:
    by = BatchRules(
        rules_of(pipeline), row_origin(pipeline), 0, BATCH_TIME_MS, _MOST_BYTES,
        keeps_lines=False, by_line=False,
    )  # fmt: skip
    found = judge_slices(by, slices, sys.maxsize)
    assert found is not None
    return sum(map(len, found.accepted))


def _figure(found: Mapping[str, Mapping[str, Sequence[float]]], messages: int) -> Figure:
    best = {name: min(costs["read and judged"]) for name, costs in found.items()}
    table = [
        [
            name,
            spread(costs["read and judged"], 2),
            spread(costs["read alone"], 2),
            f"{best[name] / best['JSON']:.2f}",
        ]
        for name, costs in found.items()
    ]

    def draw(axes: Axes) -> None:
        bars(axes, found, "microseconds of CPU a message", 2)

    told = [
        f"{messages:,} messages with five fields in two partitions; CPU of one process with its "
        "client of Kafka. Of Avro no line is made, as the types of its schema say enough."
    ]
    goals = [
        Goal(f"CPU of a message, {name} / JSON", best[name] / best["JSON"], _MOST)
        for name in found
        if name != "JSON"
    ]
    columns = ("values", "read and judged, µs", "read alone, µs", "of JSON's CPU")
    title = "Messages of Kafka in JSON and Avro, read and judged"
    numbers: dict[str, Any] = {name: dict(costs) for name, costs in found.items()}
    return Figure("messages", title, columns, table, told, numbers, draw, goals)
