"""Late rows and the ledger, for people: what a repair changed, and whether all rows add up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from demo.report import print_rows, query_table, window_text
from tidemark.ledger.report import read_ledger
from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.places import FIRST_GENERATION, Places
from tidemark.storage.delta.place import TablePlace

_SHOWN = 5


def print_repairs(console: Console, file: Path, root: str) -> None:
    """The windows that late rows changed in the last run, before → after; nothing without any."""
    pipeline = load_pipeline(file)
    places = Places(root, pipeline.name)
    for name, table in pipeline.tables.items():
        keys = [*table.group_by]
        listed = ", ".join(f'"{key}"' for key in keys)
        rows = query_table(
            places.changes(name, FIRST_GENERATION),
            f"""
            WITH known AS (
                SELECT *, lag("rows") OVER (
                    PARTITION BY window_start, {listed} ORDER BY coalesce(batch, 1e9)
                ) AS before FROM t
            )
            SELECT window_start, window_end, {listed}, before, "rows" FROM known
            WHERE cause = 'late'
            ORDER BY "rows" - coalesce(before, 0) DESC, window_start, {listed}
            """,
        )
        shown = [
            (window_text(start, end), *own, f"{before or 0:,} → {after:,}")
            for start, end, *own, before, after in rows[:_SHOWN]
        ]
        if shown:
            title = f"{pipeline.name}/{name}: {len(rows):,} closed windows repaired for late rows"
            print_rows(console, title, ["window (UTC)", *keys, "rows before → after"], shown)


def print_ledger(console: Console, pipelines: Sequence[str], root: str) -> None:
    """Each pipeline's totals in the ledger, and whether every line balances."""
    for pipeline in pipelines:
        told = read_ledger(TablePlace(Places(root, pipeline).ledger), pipeline, 1)
        if told:
            print_rows(
                console, f"{pipeline}: the ledger, {told.verdict}", told.totals_header, told.totals
            )
