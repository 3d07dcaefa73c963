"""What DuckDB may take in this process: threads, memory, and where it puts the rest.

What does not go into memory lies in a folder that a process has for itself: DuckDB names its files
by the number of the process, which one of another container may have too, and two that share a
file read each other's rows. Whose process has ended is told by a lock, and its folder removed by
the next one.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.duckdb_limits import DuckDBLimits

_BOUNDS: dict[str, int | str] = DuckDBLimits().model_dump(exclude_none=True)
_FOLDER = "tidemark-duckdb"
_LOCK = "lock"


def bound_threads(number: int) -> None:
    """Let no question of this process take more threads: of a process that has other work too."""
    _BOUNDS["threads"] = number


def bound_memory(limits: DuckDBLimits) -> None:
    """Let the questions of this process together take no more memory than the settings say."""
    _BOUNDS.update(limits.model_dump(exclude_none=True))


def bounds() -> dict[str, int | str]:
    """What DuckDB may take, by its own names. SettingsInvalid where no folder can be had for what
    does not go into memory."""
    parent = str(_BOUNDS.get("temp_directory", "")) or tempfile.gettempdir()
    return {**_BOUNDS, "temp_directory": _own_folder(parent, os.getpid())}


@cache
def _own_folder(parent: str, process: int) -> str:
    """A folder that nobody else may look into; those of processes that have ended are removed. A
    forked process has one of its own."""
    try:
        Path(parent).mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in Path(parent).glob(f"{_FOLDER}-*"):
            _remove_left(other)
        folder = tempfile.mkdtemp(prefix=f"{_FOLDER}-", dir=parent)
        # It has its name once it is held: who finds it free finds a process that has ended.
        lock = os.open(f"{folder}/{_LOCK}.new", os.O_CREAT | os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        Path(f"{folder}/{_LOCK}.new").rename(f"{folder}/{_LOCK}")
    except OSError as error:
        raise SettingsInvalid(
            f"DuckDB has no folder for what does not go into memory: {error}. Name another one "
            "(`duckdb: {temp_directory: …}` in the settings). Nothing was done."
        ) from error
    _OWN.append((process, folder))
    return folder


def _remove_left(folder: Path) -> None:
    """Remove a folder whose process has ended; one in use, or of somebody else, stays."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)


_OWN: list[tuple[int, str]] = []


@atexit.register
def _remove_own() -> None:
    for process, folder in _OWN:
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
