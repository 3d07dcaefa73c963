"""The columns of a sample: what each field of its rows holds, and which type takes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from tidemark.cli.new.column_types import Untyped, family, type_of
from tidemark.cli.new.event_times import is_date, is_instant
from tidemark.cli.new.sample import Sample
from tidemark.cli.new.schemas import KnownType
from tidemark.judge.json_text import JSON_NUMBER
from tidemark.pipeline import kafka_columns
from tidemark.pipeline.names import folded, is_column_name

# A table with more is not made by a glance at a sample; what stays stands in _extra.
MOST_COLUMNS = 200
INTEGERS = ("byte", "short", "int", "long")
_NUMBERS = (*INTEGERS, "float", "double")
_NUMBER = re.compile(JSON_NUMBER, re.ASCII)
_WHOLE = re.compile(r"-?\d+", re.ASCII)
# What people write for a value that is not there.
_NULL_TEXTS = frozenset(
    ("", "-", "NA", "N/A", "n/a", "NaN", "nan", "nil", "null", "NULL", "None", "none")
)
_LONGEST_MADE = 100


@dataclass(frozen=True)
class SampleColumn:
    """A field that can be a column. `values` has one entry for each row, null where it has none.

    `known` is what the source itself says of it, `field` what it calls it where that cannot name a
    column. Texts in `nulls` are null; `from_text`: its numbers are written as text.
    """

    name: str
    type: str
    values: tuple[Any, ...]
    known: KnownType | None = None
    field: str | None = None
    nulls: tuple[str, ...] = ()
    from_text: bool = False

    @property
    def source_name(self) -> str:
        """What the source calls it."""
        return self.field or self.name

    @cached_property
    def present(self) -> tuple[Any, ...]:
        """The values that are not null."""
        return tuple(value for value in self.values if value is not None)

    @property
    def is_required(self) -> bool:
        """Has each row to hold a value? Where the source does not say: does each?"""
        if self.known is not None:
            return not self.known.nullable
        return len(self.present) == len(self.values)

    @property
    def is_number(self) -> bool:
        """Can it be summed?"""
        return self.type in _NUMBERS or self.type.startswith("decimal")

    @property
    def is_time(self) -> bool:
        """Does the source itself say that it is a point in time?"""
        return self.known is not None and (self.type == "timestamp" or bool(self.known.note))

    @cached_property
    def distinct(self) -> int:
        """How many different values there are."""
        return len({(family(value), repr(value)) for value in self.present})

    @cached_property
    def rounded(self) -> int:
        """How many whole numbers the column would have that no double holds, so that several become
        one."""
        if self.type != "double":
            return 0
        whole = filter(_WHOLE.fullmatch, map(str, self.present))
        return sum(Decimal(one) != Decimal(float(one)) for one in whole)

    @property
    def words(self) -> str:
        """The name in lower case, its words apart by `_`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W+", "_", self.name).lower()


@dataclass(frozen=True)
class LeftOutField:
    """A field that is no column, and why; its values stay in `_extra`."""

    name: str
    why: str


def columns_of(sample: Sample) -> tuple[list[SampleColumn], list[LeftOutField]]:
    """The fields of the rows: in the order of the source's schema, else as they came first."""
    typed: dict[str, SampleColumn] = {}
    left_out: dict[str, str] = {}
    fields = list(sample.schema or dict.fromkeys(name for row in sample.rows for name in row))
    for field in fields:
        try:
            typed[field] = _column(field, sample)
        except (Untyped, ValueError) as why:
            if sample.by_place:
                typed[field] = SampleColumn(field, "string", (None,) * len(sample.rows))
            else:
                left_out[field] = str(why)
    columns: list[SampleColumn] = []
    # Only what can be a column keeps a name from others.
    names = _names(list(typed))
    for field, column in typed.items():
        if field not in names:
            left_out[field] = "is empty, a column of Kafka's, or cannot be printed"
        elif len(columns) == MOST_COLUMNS:
            left_out[field] = f"comes after {MOST_COLUMNS} columns"
        elif names[field] == field:
            columns.append(column)
        else:
            columns.append(replace(column, name=names[field], field=field))
    return columns, [LeftOutField(field, left_out[field]) for field in fields if field in left_out]


def columns_beside(sample: Sample) -> list[SampleColumn]:
    """What rows may have beside their own fields."""
    return [
        SampleColumn(name, kafka_columns.TYPES[name], values)
        for name, values in sample.beside.items()
    ]


def _names(fields: Sequence[str]) -> dict[str, str]:
    """The columns' names: those of the fields where they can name one, and no two of which differ
    by their case alone; else one made of its letters and digits, with `_` at its end while another
    column has it. None for a field that the pipeline's file cannot name."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for field in fields:
        if is_column_name(field) and folded(field) not in taken:
            names[field] = field
            taken.add(folded(field))
    for field in fields:
        if field in names or not field.isprintable() or not field or field in kafka_columns.TYPES:
            continue
        name = re.sub(r"\W+", "_", field)[:_LONGEST_MADE].strip("_").lower() or "column"
        while folded(name) in taken:
            name += "_"
        names[field] = name
        taken.add(folded(name))
    return names


def _column(name: str, sample: Sample) -> SampleColumn:
    values = tuple(row.get(name) for row in sample.rows)
    known = sample.schema[name] if sample.schema else None
    if known is None:
        return _guessed(name, values)
    if known.unusable:
        raise Untyped(known.unusable)
    return SampleColumn(name, known.type, values, known)


def _guessed(name: str, values: tuple[Any, ...]) -> SampleColumn:
    """The type of a field's values. Texts that stand for no value are looked at where the others
    are no texts, and numbers in text where one of them has a point: others may be codes."""
    said_null = {value for value in values if isinstance(value, str) and value in _NULL_TEXTS}
    others: tuple[Any, ...] = ()
    if said_null:
        texts = (isinstance(value, str) and value in said_null for value in values)
        others = tuple(None if one else value for one, value in zip(texts, values, strict=True))
    if any(value is not None for value in others):
        with suppress(Untyped):
            column = _typed(name, others)
            # `nulls` are for columns of one value.
            if column.type != "string" and "<" not in column.type:
                return replace(column, nulls=tuple(sorted(said_null)))
    return _typed(name, values)


def _typed(name: str, values: tuple[Any, ...]) -> SampleColumn:
    present = [value for value in values if value is not None]
    spark_type, misfits = type_of(present)
    if spark_type == "string" and not misfits:
        if all(map(is_instant, present)):
            spark_type = "timestamp"
        elif all(map(is_date, present)):
            spark_type = "date"
        elif all(map(_NUMBER.fullmatch, present)) and any("." in text for text in present):
            return SampleColumn(name, "double", values, from_text=True)
    return SampleColumn(name, spark_type, values)
