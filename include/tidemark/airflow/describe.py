"""A pipeline as the text that Airflow's UI shows with its Dag."""

from __future__ import annotations

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline, Table
from tidemark.pipeline.places import Places


def describe(pipeline: Pipeline, places: Places) -> str:
    """Source, watermark and tables of a pipeline, in Markdown."""
    source = pipeline.source
    rows = [_row(name, table, places) for name, table in pipeline.tables.items()]
    return "\n".join(
        [
            _cell(pipeline.description or pipeline.name),
            "",
            f"- **source**: `{source.files}`, event time `{source.event_time.column}`",
            f"- **watermark**: delay {duration_text(pipeline.watermark.delay)}",
            f"- **accepted rows**: `{places.bronze}`",
            f"- **rejected rows**: `{places.rejects}`",
            "",
            "| table | windows | keys | measures | gold |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def _row(name: str, table: Table, places: Places) -> str:
    length, slide = duration_text(table.window.length), duration_text(table.window.slide)
    windows = length if length == slide else f"{length}, every {slide}"
    measures = ", ".join(f"{measure} = `{sql}`" for measure, sql in table.measures.items())
    keys = ", ".join(table.group_by)
    cells = (name, windows, keys, measures, f"`{places.gold(name)}`")
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """On one line, and without ending the cell: SQL has `|` and may have line breaks."""
    return " ".join(text.split()).replace("|", "\\|")
