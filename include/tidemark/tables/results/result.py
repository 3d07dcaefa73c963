"""The result of a run, as it is written to a file and told to people."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from tidemark.pipeline.instants import instant_text
from tidemark.tables.results.result_file import Facts, RunError


class Rows(Facts):
    """Rows of the run's batches: `read` as counted at the source, the others as judged. The ledger
    holds them against each other. A file that could not be read is one row of rejected, and of
    read."""

    read: int = 0
    accepted: int = 0
    rejected: dict[str, int] = Field(default_factory=dict)

    def __add__(self, other: Rows) -> Rows:
        reasons = self.rejected.keys() | other.rejected.keys()
        return Rows(
            read=self.read + other.read,
            accepted=self.accepted + other.accepted,
            rejected={
                reason: self.rejected.get(reason, 0) + other.rejected.get(reason, 0)
                for reason in sorted(reasons)
            },
        )


class Late(Facts):
    """Rows that came too late for a table's stream, and what became of their windows.

    `rows` are wholly late, `partly` in some of their windows only; `assigned` counts (row,
    window) pairs and `windows` the windows, per batch. `recomputed` windows were computed again
    from bronze, `corrected` of them came out with another value. `frozen` assignments belong to
    windows older than `keep`, which stay as they are.
    """

    rows: int = 0
    partly: int = 0
    assigned: int = 0
    windows: int = 0
    frozen: int = 0
    recomputed: int = 0
    corrected: int = 0


class Published(Facts):
    """What a run's commit of gold changed: so many windows, from the earliest start to the latest
    end, in milliseconds since 1970, UTC."""

    windows: int
    start_ms: int
    end_ms: int


class TableResult(Facts):
    """What a run did to one table of the pipeline.

    `changes`, `bronze` (versions), `generation` and the close frontiers are the pins from which
    publish computes its plan. Watermarks and close frontiers are milliseconds since 1970, UTC;
    0: none yet. `sealed_to_ms` is the seal frontier, 0 where the run sealed nothing. `gold` and
    `published_windows` are null until published. `published` is what the run's commit of gold
    holds, also where a repeat found it committed already; null where it changed no window.
    """

    generation: int
    changes: int
    bronze: int
    windows_changed: int
    watermark_before_ms: int
    watermark_after_ms: int
    close_before_ms: int
    close_after_ms: int
    sealed_to_ms: int = 0
    late: Late = Late()
    gold: int | None = None
    published_windows: int | None = None
    published: Published | None = None


class RunResult(Facts):
    """One run, as far as it came. `held`: the run's changes are left for a later publish.

    `scheduled_at` is the time that the run stands for on the scheduler's clock. `restart` says
    of each query how it found its checkpoint; `took_over` whose lease the run took over;
    `without_spark` why no Spark was started (None: it was).
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
    error: RunError | None = None


def repair_lines(table: TableResult) -> list[str]:
    """What a run repaired in a table, for people: late rows and seals; nothing where there was
    neither."""
    late, lines = table.late, []
    if late.assigned:
        lines.append(
            f"{late.rows} rows came too late, and {late.partly} for some of their windows only; "
            f"{late.recomputed} closed windows computed again, {late.corrected} of them changed"
        )
    if late.frozen:
        lines.append(f"{late.frozen} late assignments to windows older than `keep` left out")
    if table.sealed_to_ms > table.close_before_ms:
        lines.append(f"the source is idle: windows up to {instant_text(table.sealed_to_ms)} sealed")
    return lines
