"""What a run pins of each table, from which publish computes its plan, and what it then did."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from tidemark.operators.operator import BRONZE
from tidemark.storage.result_file import Facts


class Late(Facts):
    """Rows that came too late for a table's stream, and what became of their windows.

    `rows` are wholly late, `partly` in some of their windows only; `assigned` counts (row,
    window) pairs and `windows` the windows, per batch. `recomputed` windows were computed again
    from bronze; of those that came out with another value gold held `corrected` as closed ones, and
    had none of `first_seen`. `frozen` assignments belong to windows older than `keep`, which stay
    as they are.
    """

    rows: int = 0
    partly: int = 0
    assigned: int = 0
    windows: int = 0
    frozen: int = 0
    recomputed: int = 0
    corrected: int = 0
    first_seen: int = 0


class Published(Facts):
    """What a run's commit of gold changed: so many windows, from the earliest start to the latest
    end, in milliseconds since 1970, UTC."""

    windows: int
    start_ms: int
    end_ms: int


class Dependency(Facts):
    """A table or a query that a publish rests on: Delta's id of the table and its version, or the
    id in the checkpoint's `metadata` and the last committed batch (-1: none).

    `entry` tells the log's entry of that version from any other (`entry_mark`; -1: the log has it
    no longer), for a table of another pipeline: that can be put back and written to again before
    anybody here looks."""

    id: str
    at: int
    entry: int | None = None


class TableResult(Facts):
    """What a run did to one table of the pipeline.

    `changes`, `inputs` (versions, by the name of the input), `generation` and the close frontiers
    are the pins from which publish computes its plan; `rests_on` says by name which tables and
    queries they are of (empty: pinned by a version that did not say). Watermarks and close
    frontiers are milliseconds since 1970, UTC; 0: none yet. `sealed_to_ms` is the seal frontier, 0
    where the run sealed nothing. `has_replayed`: an input got rejects that were replayed, and gold
    has to say that it has read them. So it has where the run computed windows again, which may have
    come out as they were (`has_recomputed`; false: also pinned by a version that did not say).
    `corrected_besides` closed windows of gold came out with another value for anything but late
    rows, a lookup that says something else now. `gold` and `published_windows` are null until
    published. `published` is what the run's commit of gold holds, also where a repeat found it
    committed already; null where it changed no window. `open_windows` are gold's provisional rows
    then; null also where their files cannot be read.
    """

    generation: int
    changes: int
    inputs: dict[str, int]
    rests_on: dict[str, Dependency] = Field(default_factory=dict)
    windows_changed: int
    watermark_before_ms: int
    watermark_after_ms: int
    close_before_ms: int
    close_after_ms: int
    sealed_to_ms: int = 0
    has_replayed: bool = False
    has_recomputed: bool = False
    late: Late = Late()
    corrected_besides: int = 0
    gold: int | None = None
    published_windows: int | None = None
    published: Published | None = None
    open_windows: int | None = None

    @property
    def corrected(self) -> int:
        """The closed windows of gold that came out with another value, whatever for."""
        return self.late.corrected + self.corrected_besides

    @model_validator(mode="before")
    @classmethod
    def _former_pin(cls, value: Any) -> Any:
        """Results that were written before inputs had names pin `bronze` by itself."""
        if isinstance(value, dict) and BRONZE in value and "inputs" not in value:
            value = {**value, "inputs": {BRONZE: value[BRONZE]}}
            del value[BRONZE]
        return value
