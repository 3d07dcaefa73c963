"""`tidemark ops`: the statement that makes one view of a table of `ops` of all pipelines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.options import SettingsFile
from tidemark.pipeline.places import OPS_TABLES
from tidemark.pipeline.settings.settings import load_settings

if TYPE_CHECKING:
    from tidemark.storage.ops_of_all import OpsPart

OpsTable = StrEnum("OpsTable", {name: name for name in OPS_TABLES})  # type: ignore[misc]


class Dialect(StrEnum):
    """Whose SQL it is."""

    DUCKDB = "duckdb"
    SPARK = "spark"


def ops(
    name: Annotated[OpsTable, typer.Argument(help="The table.")],
    sql: Annotated[Dialect, typer.Option("--sql", help="Who is to run the statement.")],
    settings: SettingsFile = None,
) -> None:
    """Print a view of a table of ops over all pipelines below the root, as SQL.

    Its name is `tidemark_NAME`. It names the pipelines that are there now: print it anew when one
    comes or goes. In DuckDB it needs the extension `delta`.
    """
    from tidemark.storage.ops_of_all import ops_parts

    parts = ops_parts(name, load_settings(settings))
    print((duckdb_view if sql is Dialect.DUCKDB else spark_view)(name, parts))


def duckdb_view(name: str, parts: Sequence[OpsPart]) -> str:
    """Columns are found by their names; what a table does not have is null."""
    places = [re.sub("^s3a:", "s3:", part.uri).replace("'", "''") for part in parts]
    selects = [
        f"SELECT * FROM delta_scan('{place}'){_where(part)}"
        for place, part in zip(places, parts, strict=True)
    ]
    return _view(f"CREATE OR REPLACE VIEW tidemark_{name}", selects, "UNION ALL BY NAME")


def spark_view(name: str, parts: Sequence[OpsPart]) -> str:
    """Spark's SQL knows no union by name, so each select has all columns."""
    columns = list(dict.fromkeys(column for part in parts for column in part.columns))
    selects = []
    for part in parts:
        has = [f"`{one}`" if one in part.columns else f"NULL AS `{one}`" for one in columns]
        place = part.uri.replace("`", "``")
        selects.append(f"SELECT {', '.join(has)} FROM delta.`{place}`{_where(part)}")
    return _view(f"CREATE OR REPLACE TEMPORARY VIEW tidemark_{name}", selects, "UNION ALL")


def _view(head: str, selects: Sequence[str], union: str) -> str:
    return f"{head} AS\n" + f"\n{union}\n".join(selects) + ";"


def _where(part: OpsPart) -> str:
    return f" WHERE {part.condition}" if part.condition else ""
