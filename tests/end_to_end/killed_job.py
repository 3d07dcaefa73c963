"""`jobs/stream.py` that ends itself, and all of its process group, at one point of the run.

`--kill before|after MODULE:FUNCTION CALL` says at which call of which function (1: the first).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import wraps
from itertools import count
from typing import Any

from tidemark.streaming.job import main


def end_at(when: str, place: str, call: str) -> None:
    """Replace the function: its CALLth call kills the group, before or after its work."""
    module_name, name = place.split(":")
    module = importlib.import_module(module_name)
    original, calls = getattr(module, name), count(1)

    @wraps(original)
    def ending(*values: Any, **named: Any) -> Any:
        this = next(calls) == int(call)
        if this and when == "before":
            _kill()
        found = original(*values, **named)
        if this:
            _kill()
        return found

    setattr(module, name, ending)


def _kill() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def run(argv: Sequence[str]) -> int:
    parser = ArgumentParser()
    parser.add_argument("--kill", nargs=3, required=True)
    own, arguments = parser.parse_known_args(argv)
    end_at(*own.kill)
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
