"""A bronze's columns by the names that a table's file gives them, and which of its rows count.

Spark finds a column in any case of letters and gives it by the name that was asked for; DuckDB
finds it where letters of ASCII differ in case only, and gives it by its own name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidemark.errors import PipelineInvalid
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb
from tidemark.pipeline.expressions.kinds import NULL
from tidemark.pipeline.expressions.sql import names_read
from tidemark.pipeline.names import same_column
from tidemark.storage.arrow_kinds import kinds_of


def column_named(schema: pa.Schema, name: str) -> pa.Field[Any]:
    """The column that Spark finds by this name. ValueError where there is none."""
    (found,) = (field for field in schema if same_column(field.name, name))
    return found


def selected(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """What DuckDB's SELECT lists for these columns of a relation with this schema."""
    return [f'"{column_named(schema, name).name}" AS "{name}"' for name in names]


def does_count(schema: pa.Schema, where: str | None) -> str:
    """DuckDB's condition, never null, that a row of a relation with this schema counts for a table
    (`Table.where`). Columns that bronze gets with the next run only are null, as they will be then.

    PipelineInvalid where a column has a type, which is known only now, that Spark and DuckDB
    compare differently.
    """
    if where is None:
        return "true"
    lacking = {parts[0]: NULL for parts in names_read(where) if parts}
    columns = {**columns_of(lacking), **columns_of(kinds_of(schema))}
    try:
        condition = condition_in_duckdb(where, columns)
    except ValueError as error:
        raise PipelineInvalid(
            f"`where: {where}` cannot be asked of bronze: {error}. Nothing was written. `derive` a "
            "boolean column that says it, in any Spark SQL, and name that."
        ) from error
    # Not in a form that is handed to Arrow, which compares in its own way.
    return f"coalesce({condition}, false)"
