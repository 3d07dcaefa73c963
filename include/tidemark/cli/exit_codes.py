"""Exit codes that say whether starting again can help."""

from __future__ import annotations

from typing import Protocol

from tidemark.errors import FAILED, RETRY

INTERRUPTED = 130


class _Failure(Protocol):
    """An error, raised or read from a result file."""

    @property
    def retry_can_help(self) -> bool: ...


def exit_code(error: _Failure) -> int:
    """75 where starting again can help, 1 where something must be mended first."""
    return RETRY if error.retry_can_help else FAILED
