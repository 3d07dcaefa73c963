"""The commands' entry points: before anything else is imported, what makes its start quicker."""

from __future__ import annotations

import gc
import importlib
import sys


def main() -> None:
    """Run the command `tidemark`."""
    _run("tidemark.cli.main")


def checkpoint() -> None:
    """Run the command `tidemark-checkpoint`."""
    _run("tidemark.cli.checkpoint.tool")


def _run(module: str) -> None:
    """Importing makes objects that stay: looking for garbage among them every 700 objects, as
    Python does, is a fifth of the start's CPU seconds."""
    gc.set_threshold(100_000, 50, 50)
    try:
        importlib.import_module(module).app()
    except KeyboardInterrupt:  # Ctrl-C before the command has begun
        sys.exit(130)
