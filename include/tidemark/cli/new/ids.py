"""Which column of a sample is the id of its rows, and which rows are exceptions to that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.cli.new.column_types import MOST
from tidemark.cli.new.columns import INTEGERS, SampleColumn
from tidemark.cli.new.sample import Sample

# In words apart by `_`.
_ID = re.compile(r"(^|_)(id|uuid|guid)$")
# Of the rows that have an id, one in so many may share it with a different row: a run rejects it.
_ONE_IN = 100


@dataclass(frozen=True)
class IdColumn:
    """A column that is named like an id. Of the sample's rows, one that comes twice counted once,
    `having` have one, `lacking` have none, so that they repeat nothing, and `shared` have that of
    a different row."""

    column: SampleColumn
    having: int
    lacking: int
    shared: int

    @property
    def tells_rows_apart(self) -> bool:
        """Do at least MOST of the rows have one, and hardly any two of them the same?"""
        is_common = self.having >= MOST * (self.having + self.lacking)
        return is_common and self.shared <= self.having // _ONE_IN


def id_columns(columns: Sequence[SampleColumn], sample: Sample) -> tuple[IdColumn, ...]:
    """The columns that are named like an id, in their order."""
    different = list({repr(sorted(row.items())): row for row in sample.rows}.values())
    return tuple(
        _counted(column, [row.get(column.name) for row in different])
        for column in columns
        if _ID.search(column.words) and column.type in ("string", *INTEGERS)
    )


def _counted(column: SampleColumn, values: Sequence[Any]) -> IdColumn:
    """What is not of the column's type is rejected, and no id."""
    asked = str if column.type == "string" else int
    ids = [one for one in values if isinstance(one, asked) and not isinstance(one, bool)]
    return IdColumn(column, len(ids), len(values) - len(ids), len(ids) - len(set(ids)))
