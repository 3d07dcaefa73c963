"""Judge what a run would publish, write the verdicts down, and say whether it may be published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidemark.errors import ChecksFailed, LedgerUnbalanced
from tidemark.gold.state import PROVISIONAL
from tidemark.gold.to_publish import to_publish
from tidemark.ledger.ledger import check_ledger
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import listed, same_row
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.conditions import judge_conditions
from tidemark.quality.data_docs import write_docs
from tidemark.quality.expectations import TableExpectations, judge_expectations
from tidemark.quality.gaps import judge_gaps
from tidemark.quality.planned_rows import PlannedRows, TablePublish, WholePublish, planned_rows
from tidemark.quality.record import JudgedRun, record_verdicts
from tidemark.quality.source_checks import judge_source
from tidemark.quality.verdicts import (
    CheckVerdict,
    bad_row_lines,
    failures,
    verdict_line,
    verdict_name,
)
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse

_MOST_TOLD = 5
_ADVICE = (
    "Gold is as it was, and what the run computed is kept. Mend the data or the check and run the "
    "pipeline again: that run publishes this one's windows with its own. Or publish it as it is: "
    '`tidemark publish {pipeline} --accept --reason "…"`.'
)


@dataclass(frozen=True)
class Judged:
    """Verdicts that nobody has recorded yet, and what the pages of expectations are made of."""

    verdicts: tuple[CheckVerdict, ...]
    expectations: tuple[TableExpectations, ...] = ()


@dataclass(frozen=True)
class Validated:
    """The verdicts on a run, and where its Data Docs begin (None: no expectation ran)."""

    verdicts: tuple[CheckVerdict, ...]
    data_docs: str | None = None


def validate_result(
    pipeline: Pipeline, run: RunResult, settings: Settings, now: datetime
) -> Validated:
    """Judge what the pins of a run would publish now, held rows included, and record it.

    A table that gets nothing is not judged. `now` is in UTC. Raises NotPublishable as publish does.
    """
    tables = _publishes(pipeline, run, settings)
    judged = judge_tables(pipeline.name, tables, settings)
    of_source = judge_source(pipeline, run, settings)
    judged = replace(judged, verdicts=(*judged.verdicts, *of_source))
    return record_validation(run, judged, settings, now, run.versions)


def judge_tables(pipeline: str, tables: Iterable[WholePublish], settings: Settings) -> Judged:
    """Judge what these publishes would write, and the ledger where there are any. Nothing is
    written."""
    verdicts: list[CheckVerdict] = []
    expected: list[TableExpectations] = []
    for table in tables:
        with planned_rows(table) as rows:
            verdicts += [*judge_table(rows), *judge_conditions(rows), *judge_gaps(rows)]
            expected += judge_expectations(rows)
    if verdicts:
        verdicts.append(judge_ledger(Warehouse.of(pipeline, settings).ledger, pipeline))
    verdicts += [verdict for table in expected for verdict in table.verdicts]
    return Judged(tuple(verdicts), tuple(expected))


def record_validation(
    run: JudgedRun,
    judged: Judged,
    settings: Settings,
    now: datetime,
    versions: Mapping[str, int] | None = None,
) -> Validated:
    """Write verdicts into `ops/quality`, and the pages of expectations. `now` is in UTC, `versions`
    as `record_verdicts` has them."""
    warehouse = Warehouse.of(run.pipeline, settings)
    data_docs = None
    if judged.expectations:
        keep = settings.checks.keep_docs
        data_docs = write_docs(warehouse, run.run_id, now, judged.expectations, keep)
    quality = warehouse.quality
    record_verdicts(quality, run, now, judged.verdicts, data_docs, versions=versions)
    return Validated(judged.verdicts, data_docs)


def check_none_failed(
    pipeline: str, run_id: str, verdicts: Sequence[CheckVerdict], advice: str | None = None
) -> None:
    """Raise ChecksFailed where a check keeps the run from being published.

    `advice` says what is kept, and what to do; else it is that of a run of the stream.
    """
    failed = failures(verdicts)
    if not failed:
        return
    more = f"; and {len(failed) - _MOST_TOLD} more, in ops/quality" * (len(failed) > _MOST_TOLD)
    names = "; ".join(verdict_name(verdict) for verdict in failed[:_MOST_TOLD])
    lines = [f"Run {run_id} of `{pipeline}` is not published. Failed: {names}{more}."]
    for verdict in failed[:_MOST_TOLD]:
        lines += [verdict_line(verdict), *bad_row_lines(verdict)]
    lines.append(advice or _ADVICE.format(pipeline=pipeline))
    raise ChecksFailed("\n".join(lines))


def _publishes(pipeline: Pipeline, run: RunResult, settings: Settings) -> Iterator[TablePublish]:
    """What the run's pins would publish now."""
    warehouse = Warehouse.of(pipeline.name, settings)
    for name, pins in run.tables.items():
        operator = operator_of(pipeline, name)
        found = to_publish(
            operator, pins, warehouse.gold(name), warehouse.changes(name, pins.generation)
        )
        if not found.plan.nothing_to_do:
            changes = found.changes()
            yield TablePublish(name, operator, found.gold, found.plan, changes, run.run_id)


# Checks that need no asking, and are always `fail`. They look at the partitions of gold that the
# publish touches; the whole of gold is the audit's.
KEYS_UNIQUE = "each window and key is there once"
NONE_OPEN = "no closed window is provisional"
NO_STEP_BACK = "no revision is lower than before"
LEDGER_BALANCED = "the ledger balances"


def judge_table(rows: PlannedRows) -> Iterator[CheckVerdict]:
    """What publish promises of gold, held to what it would write."""
    after, keys = _after(rows), listed(rows.keys)
    looked_at = rows.count(f"SELECT count(*) FROM ({after})")
    closed = f"TIMESTAMPTZ '{instant_of(rows.plan.close_after_ms).isoformat()}'"
    same = same_row(rows.operator, "w", "b")
    bad = {
        KEYS_UNIQUE: f"""
            SELECT {keys}, count(*) AS times FROM ({after}) GROUP BY {keys} HAVING count(*) > 1
        """,
        NONE_OPEN: f"""
            SELECT {keys}, window_end FROM ({after})
            WHERE status = '{PROVISIONAL}' AND window_end <= {closed}
        """,
        NO_STEP_BACK: f"""
            SELECT {listed(rows.keys, "w")}, w.revision, b.revision AS before
            FROM written w JOIN before b ON {same} WHERE w.revision < b.revision AND NOT w._gone
        """,
    }
    for check, sql in bad.items():
        yield rows.judged(check, sql, looked_at, "windows")


def judge_ledger(ledger: TablePlace, pipeline: str) -> CheckVerdict:
    """Each line of the ledger that has an equation fulfils it."""
    message = "each line adds up"
    try:
        check_ledger(ledger, pipeline)
    except LedgerUnbalanced as error:
        message = str(error)
    passed = message == "each line adds up"
    return CheckVerdict(
        table=None, check=LEDGER_BALANCED, severity="fail", passed=passed, observed=message, rows=0
    )


def _after(rows: PlannedRows) -> str:
    """What gold holds in the touched spans, as the publish would leave it."""
    columns = (*rows.keys, "window_end", "status")
    same = same_row(rows.operator, "b", "w")
    return f"""
        SELECT {listed(columns)} FROM written WHERE NOT _gone UNION ALL
        SELECT {listed(columns, "b")} FROM before b ANTI JOIN written w ON {same}
    """
