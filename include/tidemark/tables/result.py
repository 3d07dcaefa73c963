"""The result file of a run: what a job says to whoever started it.

Written by the job when it ends, well or badly; read by the Airflow operator, the publish task
and the command line. JSON at a URI, so that it works where the job ran on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemark.errors import ResultUnreadable, TidemarkError
from tidemark.pipeline.instants import instant_text
from tidemark.storage.files import FileMissing, read_bytes, write_bytes


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rows(_Frozen):
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


class Late(_Frozen):
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


class TableResult(_Frozen):
    """What a run did to one table of the pipeline.

    `changes`, `bronze` (versions), `generation` and the close frontiers are the pins from which
    publish computes its plan. Watermarks and close frontiers are milliseconds since 1970, UTC;
    0: none yet. `sealed_to_ms` is the seal frontier, 0 where the run sealed nothing. `gold` and
    `published_windows` are null until published.
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


class RunError(_Frozen):
    """Why a run failed, and whether starting it again can help."""

    type: str = Field(alias="class")
    message: str
    retry_can_help: bool

    @classmethod
    def of(cls, error: BaseException) -> RunError:
        """An error that is not one of ours is unforeseen; its cause may pass."""
        can_help = error.retry_can_help if isinstance(error, TidemarkError) else True
        return cls.model_validate(
            {"class": type(error).__name__, "message": str(error), "retry_can_help": can_help}
        )


class RunResult(_Frozen):
    """One run, as far as it came. `held`: the run's changes are left for a later publish.

    `scheduled_at` is the time that the run stands for on the scheduler's clock. `restart` says
    of each query how it found its checkpoint; `took_over` whose lease the run took over.
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


def write_result(uri: str, result: BaseModel, options: Mapping[str, str]) -> None:
    """Write the result of a run, an audit or a backfill; an earlier one of the same try is
    replaced."""
    write_bytes(uri, result.model_dump_json(by_alias=True, indent=2).encode(), options)


def read_result(uri: str, options: Mapping[str, str]) -> RunResult:
    """Read a result. Raises ResultUnreadable where there is none, or none of this format."""
    try:
        return RunResult.model_validate_json(read_bytes(uri, options))
    except FileMissing as error:
        raise ResultUnreadable(
            f"There is no result file {uri}: the job ended before it could write one."
        ) from error
    except ValidationError as error:
        raise ResultUnreadable(f"{uri} is not a result file of format 1: {error}") from error
