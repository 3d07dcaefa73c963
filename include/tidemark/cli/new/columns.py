"""The columns of a sample: what each field of its rows holds, and which type takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidemark.cli.new.column_types import Untyped, family, type_of
from tidemark.cli.new.event_times import is_date, is_instant
from tidemark.cli.new.sample import KnownType, Sample
from tidemark.pipeline import kafka_columns
from tidemark.pipeline.names import check_column_name, folded

# A table with more is not made by a glance at a sample; what stays stands in _extra.
MOST_COLUMNS = 200
INTEGERS = ("byte", "short", "int", "long")
_NUMBERS = (*INTEGERS, "float", "double")


@dataclass(frozen=True)
class SampleColumn:
    """A field that can be a column. `values` has one entry for each row, null where it has none.

    `known` is what the source itself says of it.
    """

    name: str
    type: str
    values: tuple[Any, ...]
    known: KnownType | None = None

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

    @property
    def words(self) -> str:
        """The name in lower case, its words apart by `_`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()


@dataclass(frozen=True)
class LeftOutField:
    """A field that is no column, and why; its values stay in `_extra`."""

    name: str
    why: str


def columns_of(sample: Sample) -> tuple[list[SampleColumn], list[LeftOutField]]:
    """The fields of the rows: in the order of the source's schema, else as they came first."""
    columns: list[SampleColumn] = []
    left_out: list[LeftOutField] = []
    taken: set[str] = set()
    for name in sample.schema or dict.fromkeys(name for row in sample.rows for name in row):
        try:
            _check_name(name, taken, len(columns))
            columns.append(_column(name, sample))
            taken.add(folded(name))
        except (Untyped, ValueError) as why:
            left_out.append(LeftOutField(name, str(why)))
    return columns, left_out


def columns_beside(sample: Sample) -> list[SampleColumn]:
    """What rows may have beside their own fields."""
    return [
        SampleColumn(name, kafka_columns.TYPES[name], values)
        for name, values in sample.beside.items()
    ]


def _check_name(name: str, taken: set[str], columns: int) -> None:
    check_column_name(name)
    if not name.isprintable():
        raise ValueError("has a character that cannot be printed")
    if folded(name) in taken:
        raise ValueError("differs from another column by its case alone, and Spark tells no cases")
    if columns == MOST_COLUMNS:
        raise ValueError(f"comes after {MOST_COLUMNS} columns")


def _column(name: str, sample: Sample) -> SampleColumn:
    values = tuple(row.get(name) for row in sample.rows)
    if sample.schema is None:
        return _guessed(name, values)
    known = sample.schema[name]
    if known.unusable:
        raise Untyped(known.unusable)
    return SampleColumn(name, known.type, values, known)


def _guessed(name: str, values: tuple[Any, ...]) -> SampleColumn:
    present = [value for value in values if value is not None]
    spark_type, misfits = type_of(present)
    if spark_type == "string" and not misfits:
        if all(map(is_instant, present)):
            spark_type = "timestamp"
        elif all(map(is_date, present)):
            spark_type = "date"
    return SampleColumn(name, spark_type, values)
