"""A pipeline as the text that Airflow's UI shows with its Dag: what its file says is text there,
never Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Pipeline, Table, Watermark
from tidemark.pipeline.names import BACKFILL_SUFFIX
from tidemark.pipeline.places import Places

# ASCII's punctuation: with a backslash before it, Markdown takes each for itself.
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def describe(pipeline: Pipeline, places: Places) -> str:
    """Source, watermark and tables of a pipeline, in Markdown; what it leaves out is not said."""
    source = pipeline.source
    rows = [
        row
        for name, table in pipeline.tables.items()
        for row in (_row(name, table, places), *_views(name, table, places))
    ]
    return "\n".join(
        [
            _text(pipeline.description or pipeline.name),
            "",
            f"- **source**: {_code(source.label)}, event time {_code(source.event_time.column)}",
            f"- **watermark**: {_watermark(pipeline.watermark)}",
            *_choices(pipeline),
            f"- **accepted rows**: {_code(places.bronze)}",
            f"- **rejected rows**: {_code(places.rejects)}",
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
        yield f"- **unique**: {_code(unique.by)} within {within}; rows that repeat it are rejected"
    if pipeline.keep is not None:
        keep = duration_text(pipeline.keep)
        yield f"- **keep**: {keep}; older rows are rejected, older windows are frozen"
    modes = {name: table.output_mode for name, table in pipeline.tables.items()}
    if others := [f"{_text(name)} {mode}" for name, mode in modes.items() if mode != "update"]:
        yield f"- **output mode**: {', '.join(others)}"
    kept = {
        name: table.unbounded or ", ".join(pipeline.lookups_of(name))
        for name, table in pipeline.tables.items()
    }
    if computed := [f"{_text(name)}, for {_text(one)}" for name, one in kept.items() if one]:
        yield f"- **computed from bronze in each run**: {'; '.join(computed)}"


def _row(name: str, table: Table, places: Places) -> str:
    measures = ", ".join(
        f"{_text(measure)} = {_code_in_cell(sql)}" for measure, sql in table.columns_told.items()
    )
    keys = ", ".join(_text(key) for key in table.group_by)
    gold = _code_in_cell(places.gold(name))
    where = "" if table.where is None else f", where {_code_in_cell(table.where)}"
    rows = f"{_text(table.rows_are)}{where}"
    return f"| {' | '.join((_text(name), rows, keys, measures, gold))} |"


def _views(name: str, table: Table, places: Places) -> Iterator[str]:
    """A row for each view of a table."""
    for of, view in table.views.items():
        said = [] if view.having is None else [f"those with {_code_in_cell(view.having)}"]
        if view.top is not None:
            said.append(f"{view.top.n} of each window by {_text(view.top.by)}, {view.top.order}")
        place = _code_in_cell(places.view(name, of))
        yield f"| {_text(f'{name}.{of}')} | {'; '.join(said)} | | | {place} |"


def _text(text: str) -> str:
    """On one line, each character as itself."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """On one line, between more backticks than it has together itself: SQL quotes names by them."""
    line = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " * ("`" in (line[:1], line[-1:]))
    return f"{fence}{space}{line}{space}{fence}"


def _code_in_cell(text: str) -> str:
    """Without ending the cell, which a bar of the code would. One that has backslashes before it,
    as in a pattern, is shown with twice as many."""
    return re.sub(r"(\\*)\|", lambda bar: rf"{bar[1] * 2}\|", _code(text))
