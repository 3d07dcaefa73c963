"""The newest runs of a pipeline, as `ops/runs` tells them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from tidemark import errors
from tidemark.operators.repaired import BACKFILL, MIGRATION
from tidemark.runs.generations import ERASE, RETRACT, ROLLBACK
from tidemark.runs.recorded_runs import one_row_each
from tidemark.runs.wall_clock import TOLERATED
from tidemark.storage.delta.ops import newest_rows

# What starts no run of the stream.
_OTHERS = (BACKFILL, MIGRATION, ROLLBACK, RETRACT, ERASE)


@dataclass(frozen=True)
class TableOfRun:
    """What a run said of a table. Times are in UTC; None: none yet.

    `late_rows` are those since the publish before: of a run that published nothing, the next one
    counts them again. `windows_published` is None of a publish that nobody counted.
    """

    watermark: datetime | None
    windows_published: int | None
    late_rows: int
    corrected_windows: int
    is_published: bool = True


@dataclass(frozen=True)
class RecentRun:
    """A run as its row tells it. `counted`: it is known what it read and repaired; of an
    interrupted one that was not held, only its tables' publish is.

    Times are in UTC. `reasons` are rejected rows by reason, `rules` accepted ones by the rules
    that count them; empty of a run of a version that did not note them.
    """

    run: str
    outcome: str
    trigger: str | None
    scheduled_at: datetime | None
    started_at: datetime
    ended_at: datetime | None
    read: int
    accepted: int
    rejected: int
    reasons: Mapping[str, int]
    rules: Mapping[str, int]
    tables: Mapping[str, TableOfRun]
    error_class: str | None
    error: str | None
    dag: str | None = None
    by: str | None = None
    reason: str | None = None
    counted: bool = True

    @property
    def retry_can_help(self) -> bool:
        """Of a failed run; a class that is none of ours was unforeseen, and may pass."""
        known = getattr(errors, self.error_class or "", errors.RunFailed)
        return bool(known.retry_can_help)

    @property
    def windows_published(self) -> int | None:
        """Of all tables; None where nobody knows that of one."""
        counts = [table.windows_published for table in self.tables.values()]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def late_rows(self) -> int:
        """Of the table with the most of them. A row of the source that is late for several tables
        is one row: so many are late at least, and nearly always so many in all, as the rows that
        are late for one table of a batch are late for the table with the most."""
        return max((table.late_rows for table in self.tables.values()), default=0)

    @property
    def corrected_windows(self) -> int:
        return sum(table.corrected_windows for table in self.tables.values())


def counted_once(runs: Sequence[RecentRun]) -> tuple[RecentRun, ...]:
    """The runs, newest first, without the late rows that a newer one of them counts again."""
    newer: set[str] = set()
    found = []
    for run in runs:
        tables = {
            name: replace(table, late_rows=0) if name in newer and not table.is_published else table
            for name, table in run.tables.items()
        }
        newer |= tables.keys()
        found.append(replace(run, tables=tables))
    return tuple(found)


@dataclass(frozen=True)
class Totals:
    """Of several runs, those that were counted: rows, and windows that were corrected. `late_rows`
    has each late row once."""

    read: int
    accepted: int
    rejected: int
    late_rows: int
    corrected_windows: int


def totals_of(runs: Sequence[RecentRun]) -> Totals | None:
    """Of runs, newest first; None where no run is known that counted."""
    if not any(run.counted for run in runs):
        return None
    return Totals(
        read=sum(run.read for run in runs),
        accepted=sum(run.accepted for run in runs),
        rejected=sum(run.rejected for run in runs),
        late_rows=sum(run.late_rows for run in counted_once(runs)),
        corrected_windows=sum(run.corrected_windows for run in runs),
    )


def recent_runs(
    runs: DeltaTable | None,
    pipeline: str,
    number: int,
    without: Collection[str] = (),
    now: datetime | None = None,
) -> tuple[RecentRun, ...]:
    """The last runs of a pipeline's stream, newest first; at most `number`. None is a table not yet
    made.

    Backfills, migrations and rollbacks are none of them: where one failed, the stream is as well
    as before. `without`: nor are those that one of these started (`trigger`), or that ended with an
    error of one of these classes. `now`: nor are those that began later than that, as by a clock
    that was ahead, where there are others.
    """
    rows = recent_rows(runs, pipeline, number, without, now) if runs is not None else []
    return tuple(run_of(row) for row in rows)


def recent_rows(
    runs: DeltaTable,
    pipeline: str,
    number: int,
    without: Collection[str] = (),
    now: datetime | None = None,
) -> list[Mapping[str, Any]]:
    """The rows of `ops/runs` that these runs are told by: of each the last one."""
    asked, until = number, None if now is None else now + TOLERATED
    while True:
        rows = newest_rows(runs, pipeline, "started_at", asked)
        found = [
            row
            for row in one_row_each(rows)
            if not {row["trigger"], row["error_class"]} & {*_OTHERS, *without}
        ]
        by_now = [row for row in found if until is None or row["started_at"] <= until]
        if len(by_now) >= number or len(rows) < asked:
            newest = sorted(by_now or found, key=lambda row: row["started_at"], reverse=True)
            return newest[:number]
        asked *= 4


def run_of(row: Mapping[str, Any]) -> RecentRun:
    """A run by a row of `recent_rows`."""
    return RecentRun(
        run=row["run"],
        outcome=row["outcome"],
        trigger=row["trigger"],
        scheduled_at=row["scheduled_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        read=row["rows_read"] or 0,
        accepted=row["rows_accepted"] or 0,
        rejected=row["rows_rejected"] or 0,
        reasons=dict(row.get("reasons") or ()),
        rules=dict(row.get("counted") or ()),
        tables=dict(_tables(row["tables"] or ())),
        error_class=row["error_class"],
        error=row["error"],
        dag=row.get("dag"),
        by=row.get("by"),
        reason=row.get("reason"),
        counted=row["rows_read"] is not None,
    )


def _tables(recorded: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, TableOfRun]]:
    for table in recorded:
        is_published = table["gold_version"] is not None
        yield (
            table["table"],
            TableOfRun(
                table["watermark_after"],
                table["windows_published"] if is_published else 0,
                table["late_rows"] or 0,
                table["corrected_windows"] or 0,
                is_published,
            ),
        )
