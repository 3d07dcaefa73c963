"""The result of a run, as it is written to a file and told to people."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from tidemark.gold.pins import TableResult
from tidemark.pipeline.instants import instant_text
from tidemark.storage.delta.rows import Rows
from tidemark.storage.result_file import Facts, RunError


class RunResult(Facts):
    """One run, as far as it came. `held`: the run's changes are left for a later publish.

    `scheduled_at` is the time that the run stands for on the scheduler's clock. `restart` says
    of each query how it found its checkpoint; `took_over` whose lease the run took over;
    `without_spark` why no Spark was started (None: it was). `newest_event` is that of all rows in
    bronze (None: it has none, or its files do not tell). `by` says who started the run, `dag` is
    the id of the Dag that did; `reason` why, where that was said of an act.
    """

    format: Literal[1] = 1
    pipeline: str
    run_id: str
    outcome: Literal["succeeded", "failed"]
    held: bool
    trigger: str = "manual"
    scheduled_at: datetime | None = None
    started_at: datetime
    ended_at: datetime
    rows: Rows = Rows()
    batches: dict[str, list[int]] = Field(default_factory=dict)
    seconds: dict[str, float] = Field(default_factory=dict)
    versions: dict[str, int] = Field(default_factory=dict)
    tables: dict[str, TableResult] = Field(default_factory=dict)
    restart: dict[str, str] = Field(default_factory=dict)
    took_over: str | None = None
    without_spark: str | None = None
    newest_event: datetime | None = None
    by: str | None = None
    dag: str | None = None
    reason: str | None = None
    error: RunError | None = None


def repair_lines(table: TableResult) -> list[str]:
    """What a run repaired in a table, for people: late rows and seals; nothing where there was
    neither."""
    late, lines = table.late, []
    if late.assigned:
        lines.append(
            f"{late.rows} rows came too late, and {late.partly} for some of their windows only; "
            f"{late.recomputed} closed windows computed again, {late.corrected} of them corrected, "
            f"{late.first_seen} first seen"
        )
    if table.corrected_besides:
        lines.append(
            f"{table.corrected_besides} closed windows corrected for anything but late rows"
        )
    if late.frozen:
        lines.append(f"{late.frozen} late assignments to windows older than `keep` left out")
    if table.sealed_to_ms > table.close_before_ms:
        lines.append(f"the source is idle: windows up to {instant_text(table.sealed_to_ms)} sealed")
    return lines
