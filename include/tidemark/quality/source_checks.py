"""Checks of what a run read: by its result, what commits note, `ops/runs` and the statistics of
bronze.

Time is the one that the run stands for, so that a repeat says the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from deltalake import DeltaTable

from tidemark.pipeline.checks import Freshness, RejectedShare, RowsPerRun, Severity
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import epoch_ms, instant_text
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.reasons import NO_FAULTS
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.rows_to_judge import RowsToJudge
from tidemark.quality.verdicts import CheckVerdict
from tidemark.runs.results.result import RunResult
from tidemark.storage.delta.newest_event import newest_event
from tidemark.storage.delta.ops import newest_rows
from tidemark.storage.warehouse import Warehouse

_FIRST_LOOK = 4


def judge_source(pipeline: Pipeline, run: RunResult, settings: Settings) -> Iterator[CheckVerdict]:
    """A verdict for each check of the source; none where there is nothing to hold it to."""
    judged = RowsToJudge(run, Warehouse.of(pipeline.name, settings))
    for check in pipeline.source.checks:
        rule, severity = check.asked, check.severity
        if isinstance(rule, RejectedShare):
            yield _rejected(rule, severity, judged)
        elif isinstance(rule, Freshness):
            yield _freshness(rule, severity, pipeline, run, settings)
        elif judged.rows.judged:
            yield _rows_per_run(rule, severity, judged)


def _rejected(rule: RejectedShare, severity: Severity, judged: RowsToJudge) -> CheckVerdict:
    rows = judged.rows
    rejected = sum(count for why, count in rows.rejected.items() if why not in NO_FAULTS)
    share = rejected / rows.judged if rows.judged else 0.0
    return CheckVerdict(
        table=None,
        check=f"rejected_share at most {rule.at_most:g}",
        severity=severity,
        passed=share <= rule.at_most,
        observed=f"{share:.4g} ({rejected:,} of {_counted(judged)})",
        rows=rows.judged,
        unexpected=rejected,
    )


def _rows_per_run(rule: RowsPerRun, severity: Severity, judged: RowsToJudge) -> CheckVerdict:
    runs = judged.warehouse.runs.open()
    before = _rows_before(runs, judged, rule.last_runs) if runs is not None else []
    mean = sum(before) / len(before) if before else None
    times = judged.rows.judged / mean if mean else None
    low, high = rule.at_least, rule.at_most
    passed = times is None or ((low is None or times >= low) and (high is None or times <= high))
    named = (("at least", rule.at_least), ("at most", rule.at_most))
    bounds = [f"{name} {bound:g}" for name, bound in named if bound is not None]
    observed = f"{_counted(judged)}, no earlier run read any"
    if mean and times is not None:
        observed = f"{_counted(judged)}, {times:.4g} times the mean {mean:,.1f} of {len(before)}"
    return CheckVerdict(
        table=None,
        check=f"rows_per_run {', '.join(bounds)} times the mean of the last {rule.last_runs}",
        severity=severity,
        passed=passed,
        observed=observed,
        rows=judged.rows.judged,
    )


def _counted(judged: RowsToJudge) -> str:
    earlier = judged.earlier.judged
    of_others = f", {earlier:,} of them read by runs that were never judged" if earlier else ""
    return f"{judged.rows.judged:,} rows{of_others}"


def _rows_before(runs: DeltaTable, judged: RowsToJudge, number: int) -> list[int]:
    """What the last runs read that read any, newest first. Left out are this one, and those whose
    rows are judged with its own."""
    look, run = number * _FIRST_LOOK, judged.run
    while True:
        rows = newest_rows(runs, run.pipeline, "started_at", look)
        # The table that pipelines shared has several rows of a run.
        read = {
            (row["run"], row["started_at"]): count
            for row in rows
            if (count := (row["rows_accepted"] or 0) + (row["rows_rejected"] or 0))
            and row["started_at"] < run.started_at
            and not judged.are_of(row)
        }
        if len(read) >= number or len(rows) < look:
            return list(read.values())[:number]
        look *= _FIRST_LOOK


def _freshness(
    rule: Freshness, severity: Severity, pipeline: Pipeline, run: RunResult, settings: Settings
) -> CheckVerdict:
    bronze = Warehouse.of(pipeline.name, settings).bronze
    newest = newest_event(bronze, pipeline.source.event_time.column)
    now = run.scheduled_at or run.started_at
    passed, observed = False, "no event was accepted yet"
    if newest is not None:
        behind = now - newest
        passed = behind <= rule.at_most
        observed = f"newest event {instant_text(epoch_ms(newest))}, {_distance(behind)}"
    return CheckVerdict(
        table=None,
        check=f"freshness at most {duration_text(rule.at_most)}",
        severity=severity,
        passed=passed,
        observed=observed,
        rows=run.rows.judged,
    )


def _distance(behind: timedelta) -> str:
    seconds = round(behind.total_seconds())
    return f"{seconds:,} s before the run's time" if seconds >= 0 else "after the run's time"
