"""Instants as text: watermarks and close frontiers for people, and in the id of a run."""

from __future__ import annotations

from datetime import UTC, datetime


def instant_text(milliseconds: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC; the engine's 0 means that there is none yet."""
    if milliseconds == 0:
        return "none yet"
    instant = datetime.fromtimestamp(milliseconds / 1000, UTC)
    exact = "milliseconds" if milliseconds % 1000 else "seconds"
    return instant.isoformat(timespec=exact).replace("+00:00", "Z")


def manual_run_id(now: datetime) -> str:
    """The id of a run that nobody scheduled. Sortable, and a file's name as it is."""
    return f"manual__{now:%Y-%m-%dT%H-%M-%S.%fZ}"
