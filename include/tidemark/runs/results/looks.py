"""What jobs that only look came to, the content of their result files: the rows of a query's state,
and what is wrong with the engine."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from tidemark.storage.result_file import Facts, RunError


class StateRows(Facts):
    """Rows of a table's state after `batch`; with `since`, the keys that differ from the state
    after that batch. `count`: how many there are. `rows`: the first ones by their keys, each as
    a JSON object of `columns`; what a key holds is JSON text in it. `delta`: the place of a Delta
    table with all of them, where one was asked for."""

    format: Literal[1] = 1
    pipeline: str
    table: str
    checkpoint: str | None = None
    batch: int | None = None
    since: int | None = None
    count: int = 0
    columns: list[str] = Field(default_factory=list)
    rows: list[str] = Field(default_factory=list)
    delta: str | None = None
    error: RunError | None = None


class EngineResult(Facts):
    """Times in UTC; `found`: what was looked at, a line each; `error`: what is wrong, None where
    all is well."""

    started_at: datetime
    ended_at: datetime
    found: tuple[str, ...]
    error: RunError | None
