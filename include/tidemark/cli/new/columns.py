"""The columns of a sample: what each field of its rows holds, and which type takes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidemark.cli.new.column_types import Untyped, family, type_of
from tidemark.cli.new.event_times import is_date, is_instant
from tidemark.cli.new.sample import Row
from tidemark.pipeline.names import check_column_name, folded

# A table with more is not made by a glance at a sample; what stays stands in _extra.
MOST_COLUMNS = 200


@dataclass(frozen=True)
class SampleColumn:
    """A field that can be a column. `values` has one entry for each row, null where it has none.

    `misfits`: so many values are not of the type, and a run rejects their rows.
    """

    name: str
    type: str
    misfits: int
    values: tuple[Any, ...]

    @cached_property
    def present(self) -> tuple[Any, ...]:
        """The values that are not null."""
        return tuple(value for value in self.values if value is not None)

    @property
    def is_required(self) -> bool:
        """Does each row hold a value?"""
        return len(self.present) == len(self.values)

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


def columns_of(rows: Sequence[Row]) -> tuple[list[SampleColumn], list[LeftOutField]]:
    """The fields of the rows, in the order in which they came first."""
    columns: list[SampleColumn] = []
    left_out: list[LeftOutField] = []
    taken: set[str] = set()
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            _check_name(name, taken, len(columns))
            columns.append(_column(name, tuple(row.get(name) for row in rows)))
            taken.add(folded(name))
        except (Untyped, ValueError) as why:
            left_out.append(LeftOutField(name, str(why)))
    return columns, left_out


def _check_name(name: str, taken: set[str], columns: int) -> None:
    check_column_name(name)
    if not name.isprintable():
        raise ValueError("has a character that cannot be printed")
    if folded(name) in taken:
        raise ValueError("differs from another column by its case alone, and Spark tells no cases")
    if columns == MOST_COLUMNS:
        raise ValueError(f"comes after {MOST_COLUMNS} columns")


def _column(name: str, values: tuple[Any, ...]) -> SampleColumn:
    present = [value for value in values if value is not None]
    spark_type, misfits = type_of(present)
    if spark_type == "string" and not misfits:
        if all(map(is_instant, present)):
            spark_type = "timestamp"
        elif all(map(is_date, present)):
            spark_type = "date"
    return SampleColumn(name, spark_type, misfits, values)
