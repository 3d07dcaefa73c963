"""What a look at the engine came to: the content of its job's result file."""

from __future__ import annotations

from datetime import datetime

from tidemark.storage.result_file import Facts, RunError


class EngineResult(Facts):
    """Times in UTC; `found`: what was looked at, a line each; `error`: what is wrong, None where
    all is well."""

    started_at: datetime
    ended_at: datetime
    found: tuple[str, ...]
    error: RunError | None
