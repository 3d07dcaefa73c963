"""Judge what a run would publish, write the verdicts down, and say whether it may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.errors import ChecksFailed
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings import Settings
from tidemark.quality.built_in import judge_ledger, judge_table
from tidemark.quality.conditions import judge_conditions
from tidemark.quality.data_docs import write_docs
from tidemark.quality.expectations import (
    RowsOfTable,
    ToFrame,
    judge_expectations,
)
from tidemark.quality.planned_rows import ROWS, PlannedRows, planned_rows
from tidemark.quality.record import record_verdicts
from tidemark.quality.source_checks import judge_source
from tidemark.quality.verdicts import (
    Verdict,
    example_lines,
    failures,
    verdict_line,
    verdict_name,
)
from tidemark.tables.publishing.to_publish import to_publish
from tidemark.tables.results.result import RunResult
from tidemark.tables.results.runs import publish_note

_MOST_TOLD = 5


@dataclass(frozen=True)
class ManyRows:
    """A table's expectations are for Spark to tell: it would get this many rows."""

    table: str
    rows: int

    def __str__(self) -> str:
        return f"{self.table} would get {self.rows:,} rows"


@dataclass(frozen=True)
class Validated:
    """The verdicts on a run, and where its Data Docs begin (None: no expectation ran)."""

    verdicts: tuple[Verdict, ...]
    data_docs: str | None = None


def validate(
    pipeline: Pipeline,
    run: RunResult,
    settings: Settings,
    now: datetime,
    to_spark: ToFrame | None = None,
) -> Validated | ManyRows:
    """Judge what the pins of a run would publish now, held rows included, and record it.

    Without `to_spark`, expectations on more rows than the settings allow are left to it: nothing is
    recorded then. A table that gets nothing is not judged. `now` is in UTC. Raises NotPublishable
    as publish does.
    """
    verdicts: list[Verdict] = []
    asked: list[RowsOfTable] = []
    most = None if to_spark else settings.checks.max_rows
    for name in run.tables:
        found = _judge_table(pipeline, name, run, settings, most)
        if isinstance(found, ManyRows):
            return found
        verdicts += found[0]
        asked += found[1]
    places, options = Places(settings.root, pipeline.name), settings.storage_options
    if verdicts:
        verdicts.append(judge_ledger(places.ledger, pipeline.name, options))
    verdicts += judge_source(pipeline, run, settings)
    data_docs = None
    if asked:
        judged = judge_expectations(asked, to_spark)
        verdicts += [verdict for table in judged for verdict in table.verdicts]
        keep = settings.checks.keep_docs
        data_docs = write_docs(places, run.run_id, now, judged, keep, options)
    record_verdicts(places.quality, run, now, verdicts, options, data_docs)
    return Validated(tuple(verdicts), data_docs)


def check_none_failed(pipeline: str, run_id: str, verdicts: Sequence[Verdict]) -> None:
    """Raise ChecksFailed where a check keeps the run from being published."""
    failed = failures(verdicts)
    if not failed:
        return
    more = f"; and {len(failed) - _MOST_TOLD} more, in ops/quality" * (len(failed) > _MOST_TOLD)
    names = "; ".join(verdict_name(verdict) for verdict in failed[:_MOST_TOLD])
    lines = [f"Run {run_id} of `{pipeline}` is not published. Failed: {names}{more}."]
    for verdict in failed[:_MOST_TOLD]:
        lines += [verdict_line(verdict), *example_lines(verdict)]
    lines.append(
        "Gold is as it was, and what the run computed is kept. Mend the data or the check and run "
        "the pipeline again: that run publishes this one's windows with its own. Or publish it as "
        f'it is: `tidemark publish {pipeline} --accept --reason "…"`.'
    )
    raise ChecksFailed("\n".join(lines))


def _judge_table(
    pipeline: Pipeline, name: str, run: RunResult, settings: Settings, most: int | None
) -> tuple[list[Verdict], list[RowsOfTable]] | ManyRows:
    places, table = Places(settings.root, pipeline.name), pipeline.tables[name]
    pins, options = run.tables[name], settings.storage_options
    found = to_publish(pins, places.gold(name), places.changes(name), options)
    if found.plan.nothing_to_do:
        return [], []
    with planned_rows(name, table, found, publish_note(run.run_id, run.started_at)) as rows:
        asked = _expected(rows, most)
        if isinstance(asked, ManyRows):
            return asked
        return [*judge_table(rows), *judge_conditions(rows)], asked


def _expected(rows: PlannedRows, most: int | None) -> list[RowsOfTable] | ManyRows:
    """The rows themselves, for expectations alone; not in pandas where they are many."""
    if not rows.table.names_expectations:
        return []
    number = rows.count(f"SELECT count(*) FROM {ROWS}")
    if most is not None and number > most:
        return ManyRows(rows.name, number)
    return [RowsOfTable(rows.name, rows.table, rows.to_arrow())]
