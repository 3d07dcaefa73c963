"""What a trial gave, for people: the tables' first rows, the rejects, the ledger's line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Console

from tidemark.cli.console import ReportTable, report_table, shortened
from tidemark.ledger.report import read_ledger
from tidemark.pipeline.model import RANK, Pipeline
from tidemark.pipeline.places import Places
from tidemark.printed import counted
from tidemark.sources.kinds import row_origin
from tidemark.sources.source import ordering
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

SHOWN = 10
_LONGEST = 120


def print_trial(pipeline: Pipeline, places: Places, console: Console) -> None:
    """Print what is there; a run that failed may have left less."""
    for name, table in pipeline.tables.items():
        columns = ["window_start", *table.keys, *table.columns_told, "status"]
        title = name if table.where is None else f"{name}, where {table.where}"
        _print_rows(console, title, places.gold(name), columns, ["window_start", *table.keys])
        for of, view in table.views.items():
            ranked = [RANK] if view.top else []
            order = ["window_start", *(ranked or table.keys)]
            _print_rows(console, f"{name}.{of}", places.view(name, of), [*columns, *ranked], order)
    _print_rejects(console, pipeline, places)
    report = read_ledger(TablePlace(places.ledger), pipeline.name, 1)
    if report is not None:
        console.print(f"ledger: {report.verdict}")
        for table, kind, _, account in report.totals:
            console.print(f"  {kind}{f' {table}' if table else ''}: {account}")


def _print_rows(
    console: Console, title: str, uri: str, columns: Sequence[str], order: Sequence[str]
) -> None:
    count, first = _first_rows(uri, columns, order)
    console.print(f"\n{title}: {_counted(count, f'the first {SHOWN}')}")
    if first:
        console.print(rows_table(columns, first))


def _print_rejects(console: Console, pipeline: Pipeline, places: Places) -> None:
    """Print rejects as lines: a table would cut the texts, which are long."""
    origin = [one.name for one in ordering(row_origin(pipeline))]
    columns = ["reason", "detail", "raw", *origin]
    count, first = _first_rows(places.rejects, columns, ["reason", "raw", *origin], each="reason")
    console.print(f"\nrejects: {_counted(count, f'{SHOWN} of them')}")
    for reason, detail, raw, *where in first:
        message = re.sub(rf"file://{re.escape(places.root)}/\w+_source/\d+/", "", detail)
        console.print(f"  {reason}: {message}")
        # A file alone is no place of a row; the line is.
        if len(origin) > 1:
            console.print(f"    {_place(origin, where)}")
        if raw is not None:
            console.print(f"    {shortened(raw, _LONGEST)}")


def _place(origin: Sequence[str], where: Sequence[Any]) -> str:
    """The place of a row, in the words that the details of duplicates have."""
    named = zip(origin, where, strict=True)
    return ", ".join(f"{name.lstrip('_')} {one}" for name, one in named if one is not None)


def _counted(count: int, shown: str) -> str:
    rows = counted(count, "row")
    return f"{rows}, {shown}" if count > SHOWN else rows


def _first_rows(
    uri: str, columns: Sequence[str], order: Sequence[str], each: str | None = None
) -> tuple[int, list[tuple[Any, ...]]]:
    """How many rows a table has, and the first SHOWN of them; none where it is not there. `each`:
    of each value of this column as many as of any other, while there are."""
    found = TablePlace(uri).open()
    if found is None:
        return 0, []
    chosen = ", ".join(map(_quoted, columns))
    in_order = ", ".join(f"{_quoted(name)} NULLS FIRST" for name in order)
    with duckdb_in_utc() as connection:
        connection.register("found", dataset_of(found))
        ((count,),) = connection.execute("SELECT count(*) FROM found").fetchall()
        taken = in_order
        if each is not None:
            taken = f"row_number() OVER (PARTITION BY {_quoted(each)} ORDER BY {in_order}), {taken}"
        shown = f"SELECT * FROM found ORDER BY {taken} LIMIT {SHOWN}"
        sql = f"SELECT {chosen} FROM ({shown}) ORDER BY {in_order}"
        return count, connection.execute(sql).fetchall()


def rows_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> ReportTable:
    """Rows of a table of the pipeline, with numbers ranged right."""
    of_numbers = [
        all(isinstance(row[place], int | float) for row in rows) for place in range(len(columns))
    ]
    table = report_table(
        *(f">{name}" if right else name for name, right in zip(columns, of_numbers, strict=True))
    )
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.10g}"
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ")
    return shortened(str(value), _LONGEST)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
