"""What is said of an error of a fold: short, on one line, and the same wherever it is folded."""

from __future__ import annotations

import re
from contextlib import suppress

_SHOWN = 200
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
# What `loaded.py` puts before a module's name.
_MODULE = re.compile(r"\b_fold_[0-9a-f]{16}(_again)?_")


def said(text: str) -> str:
    """A text cut, without addresses, such as UTF-8 can hold, modules by their own names."""
    plain = _MODULE.sub("", text.encode("utf-8", "backslashreplace").decode())
    return _ADDRESS.sub("0x…", " ".join(plain.split()))[:_SHOWN]


def message_of(error: BaseException) -> str:
    """What an error says; nothing where it cannot say it."""
    message = ""
    with suppress(Exception, SystemExit):
        message = said(str(error))
    return message


def named(error: BaseException) -> str:
    """Its kind, and what it says."""
    kind, message = type(error).__name__, message_of(error)
    return f"{kind}: {message}" if message else kind
