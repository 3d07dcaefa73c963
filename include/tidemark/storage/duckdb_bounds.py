"""What DuckDB may take in this process: threads, memory, and where it puts the rest."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.duckdb_limits import DuckDBLimits

_BOUNDS: dict[str, int | str] = DuckDBLimits().model_dump(exclude_none=True)


def bound_threads(number: int) -> None:
    """Let no question of this process take more threads: of a process that has other work too."""
    _BOUNDS["threads"] = number


def bound_memory(limits: DuckDBLimits) -> None:
    """Let the questions of this process together take no more memory than the settings say."""
    _BOUNDS.update(limits.model_dump(exclude_none=True))


def bounds() -> dict[str, int | str]:
    """What DuckDB may take, by its own names.

    What does not go into memory goes to a folder, without one in the settings to one of this
    user's, which nobody else may look into: SettingsInvalid where that is somebody else's. DuckDB
    removes there what a killed process left behind.
    """
    if told := _BOUNDS.get("temp_directory"):
        Path(str(told)).mkdir(mode=0o700, parents=True, exist_ok=True)
        return _BOUNDS
    folder = Path(tempfile.gettempdir(), f"tidemark-duckdb-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise SettingsInvalid(
            f"{folder} belongs to somebody else, and rows would be written there: remove it, or "
            "name another folder (`duckdb: {temp_directory: …}` in the settings). Nothing was done."
        )
    return {**_BOUNDS, "temp_directory": str(folder)}
