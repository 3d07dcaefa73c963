"""A pipeline's rules for a line, as plain data: the same in the driver and in every task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from tidemark.judge.kinds import Kind, arrow_type, kind_of
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import EventTime, Pipeline

TIMESTAMP = pa.timestamp("us", "UTC")
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class ColumnRule:
    """A declared column. `type` is its text in the pipeline's file; `required`: never null."""

    name: str
    type: str
    kind: Kind
    required: bool


@dataclass(frozen=True)
class Rules:
    """All that a verdict depends on but the line and the batch's time.

    `keep_ms` and `max_future_ms` are distances from the batch's time, `keep` and `max_future` how
    people write them; without `keep_ms` no row is too old.
    """

    columns: tuple[ColumnRule, ...]
    event_time: EventTime
    unknown_fields: Literal["keep", "ignore", "reject"]
    max_future_ms: int
    max_future: str
    keep_ms: int | None
    keep: str

    @property
    def accepted_schema(self) -> pa.Schema:
        """The declared columns, `_extra` (JSON of unknown fields) and `_event_date` (UTC)."""
        declared: list[pa.Field[Any]] = [
            pa.field(column.name, arrow_type(column.kind)) for column in self.columns
        ]
        further: list[pa.Field[Any]] = [
            pa.field("_extra", pa.string()),
            pa.field("_event_date", pa.date32()),
        ]
        return pa.schema([*declared, *further])


_REJECTED: list[pa.Field[Any]] = [
    pa.field("reason", pa.string()),
    pa.field("detail", pa.string()),
    pa.field("event_time", TIMESTAMP),
]
REJECTED_SCHEMA = pa.schema(_REJECTED)


def rules_of(pipeline: Pipeline) -> Rules:
    """The rules that a pipeline's file states."""
    source = pipeline.source
    time = source.event_time
    columns = tuple(
        ColumnRule(
            name, column.type, kind_of(column.type), not column.nullable or name == time.column
        )
        for name, column in source.columns.items()
    )
    return Rules(
        columns=columns,
        event_time=time,
        unknown_fields=source.unknown_fields,
        max_future_ms=time.max_future // _MILLISECOND,
        max_future=duration_text(time.max_future),
        keep_ms=None if pipeline.keep is None else pipeline.keep // _MILLISECOND,
        keep="" if pipeline.keep is None else duration_text(pipeline.keep),
    )
