"""`tidemark status`, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from tidemark.cli.console import ReportTable, print_documents, report_console, report_table
from tidemark.pipeline.durations import span_text
from tidemark.pipeline.names import is_column_name
from tidemark.runs.status.drift import NewField, SourceDrift
from tidemark.runs.status.lag_text import lag_text
from tidemark.runs.status.pipeline_status import RECENT, PipelineStatus
from tidemark.runs.status.recent_runs import RecentRun, totals_of
from tidemark.runs.status.state import PipelineState
from tidemark.runs.status.table_status import TableStatus
from tidemark.sources.source import Lag
from tidemark.storage.delta.rows import by_name, counts_text
from tidemark.storage.lease.files import time_text

_NONE = "–"
_TEXTS = ("pipeline", "state", "last run", "outcome", "table", "run", "began", "watermark",
          "closed up to")  # fmt: skip
_WORDS = (
    "behind: the watermark, behind the newest event; read, rejected, late: rows;\n"
    "open, unpublished, published, corrected: windows"
)
_RECENTLY = (
    f"read to corrected: of the last {RECENT} runs, late: of the table with the most;\n"
    "state bytes: after the last upkeep"
)
_OF_A_RUN = "late of a run: since the publish before it, of the table with the most"


def print_status_overview(statuses: Sequence[PipelineStatus], folder: Path, now: datetime) -> None:
    """A line for each pipeline, and below it what is to be done about those not well."""
    console = report_console()
    if not statuses:
        console.print(f"There is no pipeline yet: {folder} holds no pipeline file.")
        return
    console.print(_table([_overview(one, now) for one in statuses]))
    console.print(f"{_WORDS}\n{_RECENTLY}")
    for one in statuses:
        if one.state is not PipelineState.WELL:
            console.print(f"{one.name}: {one.next_step}")


def print_pipeline(status: PipelineStatus) -> None:
    """What to do, the tables, and the recent runs."""
    console = report_console()
    console.print(f"{status.name}: {status.state}\nTo do: {status.next_step}")
    if status.problem is not None:
        console.print(f"\n{status.problem}")
    if not status.runs:
        return
    size = "not known" if status.state_bytes is None else f"{status.state_bytes:,} bytes"
    console.print(f"Newest event: {_time(status.newest_event)}. State: {size}.\n")
    # What is lost is what is to be done.
    if status.source is not None and not (isinstance(status.source, Lag) and status.source.lost):
        console.print(f"{lag_text(status.source)}\n")
    if status.tables:
        console.print(_table([_of_table(one, status.newest_event) for one in status.tables]))
        console.print()
    console.print(_table([_of_run(run) for run in status.runs]))
    console.print(f"{_WORDS}\n{_OF_A_RUN}")
    if reasons := by_name(*(run.reasons for run in status.runs)):
        console.print(f"rejected of these runs: {counts_text(reasons)}")
    if rules := by_name(*(run.rules for run in status.runs)):
        console.print(f"counted of these runs: {counts_text(rules)}")
    for run in status.runs:
        if run.reason:
            console.print(f"{run.run}: {run.reason} ({run.by})")
    if status.drift is not None:
        _print_drift(console, status.drift)
    if error := status.runs[0].error:
        console.print(f"\n{status.runs[0].run}: {status.runs[0].error_class}: {error}")


def _print_drift(console: Console, drift: SourceDrift) -> None:
    if drift.fields:
        table = report_table("field", ">of the rows", "since", "below source.columns")
        for one in drift.fields:
            table.add_row(one.name, f"{one.share:.1%}", _time(one.since), _column_of(one))
        console.print("\nFields that no column takes, kept in _extra:\n")
        console.print(table)
    if drift.wrong:
        table = report_table("column", ">of the rows", "newest")
        for wrong in drift.wrong:
            table.add_row(wrong.column, f"{wrong.share:.1%}", wrong.detail)
        console.print("\nColumns whose values are of another type, so that rows are rejected:\n")
        console.print(table)
    if drift.fields or drift.wrong:
        console.print(f"since: among the {drift.rows:,} rows of the newest batches")


def _column_of(field: NewField) -> str:
    """The line that makes a column of it."""
    if field.type is None:
        return "several kinds, or no values"
    if is_column_name(field.name):
        return f"{field.name}: {field.type}"
    path = json.dumps([field.name], ensure_ascii=False)
    # A comma would end the value within the brackets.
    kind = json.dumps(field.type) if "," in field.type else field.type
    return f"…: {{field: {path}, type: {kind}}}"


def print_statuses(statuses: Sequence[PipelineStatus]) -> None:
    """Print all that is known of each pipeline, as JSON."""
    print_documents([_document(one) for one in statuses])


def _document(status: PipelineStatus) -> dict[str, Any]:
    lag = None
    if status.watermark and status.newest_event:
        lag = (status.newest_event - status.watermark).total_seconds()
    last = status.runs[0] if status.runs else None
    behind_schedule = None
    if last and last.scheduled_at and status.watermark:
        behind_schedule = (last.scheduled_at - status.watermark).total_seconds()
    return asdict(status) | {
        "watermark": status.watermark,
        "seconds_behind_newest_event": lag,
        "seconds_behind_scheduled_time": behind_schedule,
    }


def _overview(status: PipelineStatus, now: datetime) -> dict[str, str]:
    last = status.runs[0] if status.runs else None
    ran, totals = bool(status.runs), totals_of(status.runs)
    judged = totals.accepted + totals.rejected if totals else 0
    return {
        "pipeline": status.name,
        "state": status.state,
        "last run": f"{span_text(now - last.started_at)} ago" if last else _NONE,
        "watermark": _time(status.watermark),
        "behind": _between(status.watermark, status.newest_event),
        "open": _sum(ran, (table.open_windows for table in status.tables)),
        "read": f"{totals.read:,}" if totals else _NONE,
        "rejected": _share(totals.rejected, judged) if totals else _NONE,
        "late": f"{totals.late_rows:,}" if totals else _NONE,
        "corrected": f"{totals.corrected_windows:,}" if totals else _NONE,
        "state bytes": _NONE if status.state_bytes is None else f"{status.state_bytes:,}",
    }


def _of_table(table: TableStatus, newest_event: datetime | None) -> dict[str, str]:
    return {
        "table": table.name,
        "watermark": _time(table.watermark),
        "behind": _between(table.watermark, newest_event),
        "closed up to": _time(table.closed_to),
        "open": f"{table.open_windows:,}",
        "unpublished": f"{table.unpublished:,}",
        "late": _sum(table.late_rows is not None, [table.late_rows or 0]),
        "corrected": _sum(table.corrected_windows is not None, [table.corrected_windows or 0]),
    }


def _of_run(run: RecentRun) -> dict[str, str]:
    took = (run.ended_at - run.started_at).total_seconds() if run.ended_at else None
    return {
        "run": run.run,
        "outcome": f"{run.outcome}: {run.error_class}" if run.error_class else run.outcome,
        "began": _time(run.started_at),
        "seconds": _NONE if took is None else f"{took:,.0f}",
        "read": _sum(run.counted, [run.read]),
        "rejected": _share(run.rejected, run.accepted + run.rejected) if run.counted else _NONE,
        "published": _sum(run.windows_published is not None, [run.windows_published or 0]),
        "late": _sum(run.counted, [run.late_rows]),
        "corrected": _sum(run.counted, [run.corrected_windows]),
    }


def _table(rows: Sequence[Mapping[str, str]]) -> ReportTable:
    columns = [name if name in _TEXTS else f">{name}" for name in rows[0]]
    table = report_table(*columns)
    for row in rows:
        table.add_row(*row.values())
    return table


def _time(instant: datetime | None) -> str:
    return _NONE if instant is None else time_text(instant)


def _between(earlier: datetime | None, later: datetime | None) -> str:
    return _NONE if earlier is None or later is None else span_text(later - earlier)


def _share(part: int, whole: int) -> str:
    """A count with its share; without one where it is nothing, or of nothing."""
    return f"{part:,} ({part / whole:.1%})" if part and whole else f"{part:,}"


def _sum(known: bool, numbers: Iterable[int]) -> str:
    return f"{sum(numbers):,}" if known else _NONE
