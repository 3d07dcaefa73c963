"""Parts of a file's content, where any part may be missing or wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tidemark.pipeline.durations import parse_duration

Section = dict[str, Any]


def section(content: object, key: str) -> Section:
    """The mapping below a key; an empty one where there is none."""
    found = content.get(key) if isinstance(content, dict) else None
    return found if isinstance(found, dict) else {}


def duration(content: object, key: str) -> timedelta | None:
    """The duration below a key; None where there is none, or no good one."""
    try:
        return parse_duration(content.get(key) if isinstance(content, dict) else None)
    except ValueError:
        return None
