"""A pipeline's rules for a line, as plain data: the same in the driver and in every task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from tidemark.judge.kinds import (
    ArrayKind,
    DecimalKind,
    Kind,
    MapKind,
    StructKind,
    arrow_type,
    kind_of,
)
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import EventTime, Pipeline, When

TIMESTAMP = pa.timestamp("us", "UTC")
# What `trim` takes away.
BLANKS_AROUND = " \t\r\n"
Key = str | tuple[str, ...]
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class ColumnRule:
    """A declared column. `type` is its text in the pipeline's file; `required`: never null.

    `path`: the names that lead to its field. Of text, `trim` takes the blanks around it away, what
    is in `nulls` is null, and of what reads like a number or a boolean `from_text` makes one.
    """

    name: str
    type: str
    kind: Kind
    required: bool
    path: tuple[str, ...]
    nulls: frozenset[str]
    trim: bool
    from_text: bool

    @property
    def label(self) -> str:
        """For people: its name, and its field where that has another one."""
        field = ".".join(self.path)
        return self.name if field == self.name else f"{self.name} (field `{field}`)"

    @property
    def key(self) -> Key:
        """What its value is called among a line's fields: a name, or the path into another."""
        return self.path if len(self.path) > 1 else self.path[0]

    @property
    def has_texts(self) -> bool:
        """Are there texts that are more than they stand for in JSON?"""
        return bool(self.nulls) or self.trim or self.from_text


@dataclass(frozen=True)
class Rules:
    """All that a verdict depends on but the line and the batch's time.

    `when` and `explode` say which lines records come to, before any is judged (`records.py`).
    `keep_ms` and `max_future_ms` are distances from the batch's time, `keep` and `max_future` how
    people write them; without `keep_ms` no row is too old. `numbers_in_text`: may a text be a
    number?
    """

    when: When | None
    explode: tuple[str, ...] | None
    columns: tuple[ColumnRule, ...]
    event_time: EventTime
    unknown_fields: Literal["keep", "ignore", "reject"]
    max_future_ms: int
    max_future: str
    keep_ms: int | None
    keep: str
    numbers_in_text: bool = True

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

    def without_numbers_in_text(self) -> Rules:
        """Those for lines in which all that is a number stands as one: what is left as text, in a
        column of numbers or as an epoch, is of a wrong type."""
        columns = tuple(
            replace(
                column,
                from_text=False,
                kind=replace(column.kind, in_text=False)
                if isinstance(column.kind, DecimalKind)
                else column.kind,
            )
            for column in self.columns
        )
        return replace(self, columns=columns, numbers_in_text=False)


_REJECTED: list[pa.Field[Any]] = [
    pa.field("reason", pa.string()),
    pa.field("detail", pa.string()),
    pa.field("event_time", TIMESTAMP),
]
REJECTED_SCHEMA = pa.schema(_REJECTED)


def _nulls(texts: Iterable[str], kind: Kind) -> frozenset[str]:
    nested = isinstance(kind, (ArrayKind, MapKind, StructKind))
    return frozenset() if nested else frozenset(texts)


def rules_of(pipeline: Pipeline) -> Rules:
    """The rules that a pipeline's file states."""
    source = pipeline.source
    time = source.event_time
    columns = tuple(
        ColumnRule(
            name=name,
            type=column.type,
            kind=(kind := kind_of(column.type)),
            required=not column.nullable or name == time.column,
            path=column.path(name),
            nulls=_nulls(source.nulls if column.nulls is None else column.nulls, kind),
            trim=column.trim,
            from_text=column.from_text,
        )
        for name, column in source.columns.items()
    )
    return Rules(
        when=source.when,
        explode=source.explode,
        columns=columns,
        event_time=time,
        unknown_fields=source.unknown_fields,
        max_future_ms=time.max_future // _MILLISECOND,
        max_future=duration_text(time.max_future),
        keep_ms=None if pipeline.keep is None else pipeline.keep // _MILLISECOND,
        keep="" if pipeline.keep is None else duration_text(pipeline.keep),
    )
