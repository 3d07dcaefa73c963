"""A fold's class that is at hand, as in a test: its source, and the class made again."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.operators.folds.loaded import load_again
from tidemark.pipeline.fold_code import read_fold_code


def code_of(kind: type[Any]) -> dict[str, str]:
    """The source of its module, and of those beside that which it imports, where it is as in a run;
    none where there is no file."""
    code: dict[str, str] = {}
    with suppress(TypeError, OSError, UnicodeDecodeError):
        file = Path(inspect.getfile(kind))
        code[str(file)] = file.read_text(encoding="utf-8")
    if code and _is_as_in_a_run(kind):
        with suppress(ValueError):
            beside = read_fold_code(file.parent, f"{file.name}:{kind.__name__}")
            code |= {str(file.parent / path): text for path, text in beside.items()}
    return code


def maker_of(kind: type[Any], code: Mapping[str, str]) -> Callable[[], type[Any]] | None:
    """What makes the class again of its code; None where it is not as in a run."""
    if not code or not _is_as_in_a_run(kind):
        return None
    return partial(load_again, inspect.getfile(kind), kind.__name__, code)


def _is_as_in_a_run(kind: type[Any]) -> bool:
    """Does it stand at the top of a file of its own? A module of tests is not run a second time."""
    loader = getattr(sys.modules.get(kind.__module__), "__loader__", None)
    of_tests = type(loader).__module__.startswith("_pytest")
    return not of_tests and kind.__qualname__ == kind.__name__
