"""A pipeline as the text that Airflow's UI shows with its Dag."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline, Table, Watermark
from tidemark.pipeline.names import BACKFILL_SUFFIX
from tidemark.pipeline.places import Places


def describe(pipeline: Pipeline, places: Places) -> str:
    """Source, watermark and tables of a pipeline, in Markdown; what it leaves out is not said."""
    source = pipeline.source
    rows = [_row(name, table, places) for name, table in pipeline.tables.items()]
    return "\n".join(
        [
            _cell(pipeline.description or pipeline.name),
            "",
            f"- **source**: `{source.told}`, event time `{source.event_time.column}`",
            f"- **watermark**: {_watermark(pipeline.watermark)}",
            *_choices(pipeline),
            f"- **accepted rows**: `{places.bronze}`",
            f"- **rejected rows**: `{places.rejects}`",
            "",
            "| table | windows | keys | measures | gold |",
            "|---|---|---|---|---|",
            *rows,
            "",
            *_BACKFILLS.format(dag=f"{pipeline.name}{BACKFILL_SUFFIX}").splitlines(),
        ]
    )


_BACKFILLS = """\
Airflow's own backfills are not allowed here: a run reads whatever is new, so a run for a date gone
by would not compute that date again. The Dag `{dag}` does: closed windows of a range, again from
the accepted rows.\
"""


def _watermark(watermark: Watermark) -> str:
    delay = f"delay {duration_text(watermark.delay)}"
    if watermark.seal_after_idle is None:
        return delay
    idle = duration_text(watermark.seal_after_idle)
    return f"{delay}; the last windows are sealed after {idle} without a row"


def _choices(pipeline: Pipeline) -> Iterator[str]:
    """A line for each key that changes which rows count and which windows come out."""
    if unique := pipeline.source.unique:
        within = duration_text(unique.within)
        yield f"- **unique**: `{unique.by}` within {within}; rows that repeat it are rejected"
    if pipeline.keep is not None:
        keep = duration_text(pipeline.keep)
        yield f"- **keep**: {keep}; older rows are rejected, older windows are frozen"
    modes = {name: table.output_mode for name, table in pipeline.tables.items()}
    if others := [f"{name} {mode}" for name, mode in modes.items() if mode != "update"]:
        yield f"- **output mode**: {', '.join(others)}"


def _row(name: str, table: Table, places: Places) -> str:
    measures = ", ".join(f"{measure} = `{sql}`" for measure, sql in table.measures.items())
    keys = ", ".join(table.group_by)
    cells = (name, table.rows_are, keys, measures, f"`{places.gold(name)}`")
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """On one line, and without ending the cell: SQL has `|` and may have line breaks."""
    return " ".join(text.split()).replace("|", "\\|")
