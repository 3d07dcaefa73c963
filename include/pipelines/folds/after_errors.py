"""What a visitor of a web site does who meets an error: comes back to it, or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass
class Visit:
    """The first error that no answer has followed yet."""

    failed_at: datetime | None = None
    path: str | None = None
    tries: int = 0


class AfterErrors:
    """One output for each error: `came back` with the next good answer, `left` without one."""

    def start(self) -> Visit:
        return Visit()

    def step(self, state: Visit, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        failed = row["status"] is not None and row["status"] >= 400
        if failed and state.failed_at is None:
            state.failed_at, state.path = row["timestamp"], row["path"]
        state.tries += failed
        if not failed and state.failed_at is not None:
            waited = (row["timestamp"] - state.failed_at).total_seconds()
            yield {
                "outcome": "came back",
                "path": state.path,
                "tries": state.tries,
                "waited": waited,
            }
            state.failed_at, state.path, state.tries = None, None, 0

    def on_timeout(self, state: Visit) -> Iterator[dict[str, Any]]:
        if state.failed_at is not None:
            yield {"outcome": "left", "path": state.path, "tries": state.tries}
