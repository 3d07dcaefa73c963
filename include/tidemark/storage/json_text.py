"""JSON that others wrote, and its numbers: a value, or ValueError, whatever the text holds.

`json.loads` alone raises RecursionError for a text that is nested deep, and takes 1e999 for an
infinity, which no whole number can be made of (OverflowError).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

# The engine's numbers are Java's longs.
_LARGEST = 2**63 - 1
_DIGITS = len(str(_LARGEST))


def json_value(text: str | bytes, whole: Callable[[str], int] | None = None) -> Any:
    """The value of a JSON text. ValueError where it is none, is nested too deep, or has a number
    that is no finite one or no long. `whole`: what reads whole numbers, where larger ones may be
    (`int`: decimals in Delta's statistics)."""
    try:
        return json.loads(
            text, parse_int=whole or long, parse_float=_finite, parse_constant=_no_number
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def long(value: Any) -> int:
    """A whole number, of a text or a number; ValueError where it is no long."""
    number = int(value)
    if not -_LARGEST <= number <= _LARGEST:
        raise ValueError("it has a number that is too large")
    return number


def number_of(name: str) -> int | None:
    """The number that the name of a file or folder is; None where it is none, or no long."""
    if not name.isdecimal() or len(name) > _DIGITS:
        return None
    number = int(name)
    return number if number <= _LARGEST else None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("it has a number that is too large")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
