"""The result of an audit, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field

from tidemark.pipeline.instants import instant_text
from tidemark.recompute.differences import Differences, difference_lines
from tidemark.storage.result_file import Facts, RunError

_TITLES = {
    "different": "windows with another value in gold than bronze gives",
    "only_in_gold": "windows in gold without any row in bronze",
    "only_in_bronze": "windows that bronze gives and gold lacks",
    "duplicated": "windows that stand in gold more than once",
}


class TableAudit(Facts):
    """Gold at a version against the batch aggregate of bronze, one table.

    `before_batch`: rows of that ingest batch and later ones are not in gold yet, and were left
    out. `windows_from` and `windows_to` are the starts of the first and the last window that was
    compared, None where there was none to compare; `closed_only` says that open ones were left
    out. `frozen` windows of gold are older than `keep`: bronze may have dropped their rows.
    """

    gold: int
    bronze: int
    before_batch: int | None
    close_ms: int
    closed_only: bool
    windows_from: datetime | None
    windows_to: datetime | None
    frozen: int = 0
    found: Differences = Differences()


class AuditResult(Facts):
    """One audit of a pipeline: `equal`, `different`, or `failed` where it could not tell."""

    format: Literal[1] = 1
    pipeline: str
    run_id: str
    outcome: Literal["equal", "different", "failed"]
    started_at: datetime
    ended_at: datetime
    tables: dict[str, TableAudit] = Field(default_factory=dict)
    error: RunError | None = None


def audit_lines(result: AuditResult) -> Iterator[str]:
    """For people, of each table: what was compared, what differs, what to do."""
    for name, audit in result.tables.items():
        yield from _table_lines(result.pipeline, name, audit)


def _table_lines(pipeline: str, name: str, audit: TableAudit) -> Iterator[str]:
    found = audit.found
    verdict = f"{found.windows:,} windows differ" if found.windows else "gold equals bronze"
    yield f"{name}: {verdict}"
    yield f"  compared: {_compared(audit)}; {found.equal:,} equal"
    if audit.frozen:
        yield f"  left out: {audit.frozen:,} windows of gold that are frozen (`keep`)"
    if found.failing:
        yield f"  in neither: {found.failing:,} windows of which a measure fails"
    yield from difference_lines(found, _TITLES, arrow=False)
    if found.windows:
        yield from _advice(pipeline, name, audit)


def _compared(audit: TableAudit) -> str:
    found = audit.found
    before = f" before batch {audit.before_batch}" if audit.before_batch is not None else ""
    which = f"closed up to {instant_text(audit.close_ms)}" if audit.closed_only else "open ones too"
    return (
        f"{found.gold_windows:,} windows of gold (version {audit.gold}), {found.bronze_windows:,} "
        f"of bronze (version {audit.bronze}{before}), {which}"
    )


def _advice(pipeline: str, name: str, audit: TableAudit) -> Iterator[str]:
    yield "  what to do:"
    yield (
        "    Were rows of bronze lost or changed by mistake? Restore bronze to the version before "
        "(its history says which), and audit again."
    )
    yield (
        "    Is bronze right? Closed windows are mended by `tidemark backfill "
        f"{pipeline} --table {name} --from … --to …`; --dry-run shows what it would change. "
        f"Windows that end after {instant_text(audit.close_ms)} are open: once they have closed."
    )
    if audit.found.duplicated:
        yield (
            "    A window that stands in gold twice was written by something else than a publish: "
            "delete all of its rows from gold, then backfill its range."
        )
