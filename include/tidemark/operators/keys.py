"""A bronze's columns by the names that a table's file gives them.

Spark finds a column in any case of letters and gives it by the name that was asked for; DuckDB
finds it where letters of ASCII differ in case only, and gives it by its own name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidemark.pipeline.names import same_column


def column_named(schema: pa.Schema, name: str) -> pa.Field[Any]:
    """The column that Spark finds by this name. ValueError where there is none."""
    (found,) = (field for field in schema if same_column(field.name, name))
    return found


def selected(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """What DuckDB's SELECT lists for these columns of a relation with this schema."""
    return [f'"{column_named(schema, name).name}" AS "{name}"' for name in names]
