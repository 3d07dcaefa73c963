"""A bronze's columns by the names that a table's file gives them, and which of its rows count.

Spark finds a column in any case of letters and gives it by the name that was asked for; DuckDB
finds it where letters of ASCII differ in case only, and gives it by its own name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from tidemark.errors import PipelineInvalid
from tidemark.judge.kinds import arrow_type, kind_of
from tidemark.operators.looked_up_rows import Found, rows_found
from tidemark.operators.lookups import (
    NO_LOOKUPS,
    Lookups,
    columns_by_name,
    names_taken,
    register_copy,
)
from tidemark.pipeline.expressions.in_duckdb import columns_of, condition_in_duckdb
from tidemark.pipeline.expressions.kinds import NULL
from tidemark.pipeline.expressions.sql import names_read
from tidemark.pipeline.names import same_column
from tidemark.storage.arrow_kinds import kinds_of
from tidemark.storage.delta.history import schema_of


def column_named(schema: pa.Schema, name: str) -> pa.Field[Any]:
    """The column that Spark finds by this name. ValueError where there is none."""
    (found,) = (field for field in schema if same_column(field.name, name))
    return found


def selected(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """What DuckDB's SELECT lists for these columns of a relation with this schema."""
    return [f'"{column_named(schema, name).name}" AS "{name}"' for name in names]


@dataclass(frozen=True)
class RowsRead:
    """Rows of bronze as a relation of DuckDB, each with what lookups know of it: `schema` are its
    columns, a lookup's as `airlines.name`, and a key of gold's by its name there. Conditions, never
    null: that a row `counts` for the table, that it is `without_match` in one of the lookups."""

    schema: pa.Schema
    counts: str
    without_match: str = "false"


def register_rows(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    rows: Any,
    event_time: str,
    where: str | None,
    lookups: Lookups = NO_LOOKUPS,
    found: Found | None = None,
) -> RowsRead:
    """Register rows of bronze as this relation, for a table with this `where`. `found`: what those
    of the rows find that somebody will ask for, where that is not all of them."""
    if not lookups:
        connection.register(name, rows)
        return RowsRead(rows.schema, does_count(rows.schema, where))
    connection.register(f"{name}_read", rows)
    columns = columns_by_name(rows.schema, (one for of in lookups.values() for one in of.lookup.on))
    if found is None:
        found = rows_found(connection, f"{name}_read", lookups, columns)
    taken = names_taken(lookups)
    schema = [of for of in rows.schema if not any(same_column(of.name, one) for one in taken)]
    selected, joins = [f'r."{of.name}"' for of in schema], list[str]()
    missing, left_out = [], []
    for place, (lookup, one) in enumerate(lookups.items()):
        alias, copied = f"l{place}", f"{name}_lookup_{place}"
        register_copy(connection, copied, one, found.get(lookup))
        kept = schema_of(one.copied.table)
        named = {f"{lookup}.{column}": column for column in one.lookup.columns} | dict(one.keys)
        selected += [f'{alias}."{column}" AS "{told}"' for told, column in named.items()]
        schema += [pa.field(told, kept.field(column).type) for told, column in named.items()]
        selected.append(f'{alias}._found IS NULL AS "_without_{lookup}"')
        missing.append(f'"_without_{lookup}"')
        left_out += [f'NOT "_without_{lookup}"'] if one.lookup.on_missing else []
        joins.append(
            f"LEFT JOIN {copied} {alias} ON {one.same_keys('r', alias, event_time, columns)}"
        )
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {', '.join(selected)} "
        f"FROM {name}_read r {' '.join(joins)}"
    )
    whole = pa.schema(schema)
    counts = " AND ".join([does_count(whole, where), *left_out])
    return RowsRead(whole, counts, " OR ".join(missing))


def with_columns_of(schema: pa.Schema, lookups: Lookups) -> pa.Schema:
    """Bronze's columns and those of lookups, as `where` names them."""
    for name, one in lookups.items():
        for column, kind in one.lookup.columns.items():
            schema = schema.append(pa.field(f"{name}.{column}", arrow_type(kind_of(kind))))
    return schema


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
