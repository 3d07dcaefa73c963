"""What is printed is text: the one door to stdout and stderr, of commands and jobs alike.

Rows, names of files and of columns, and messages of other programs may hold what a terminal obeys:
escape sequences, and characters that change the order of what stands beside them.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, cast

# Control characters but for tab and line feed, line separators, marks and embeddings of a direction
# of writing, and halves of characters, which no stream can encode (names of files that are no
# UTF-8).
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"
)


def shown(text: str) -> str:
    """The text with what a terminal would obey written as JSON writes it: the same value there."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(number: int, what: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _in_json(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_IN_JSON = "tidemark.in_json"
codecs.register_error(_IN_JSON, _in_json)


@contextmanager
def printing_text() -> Iterator[None]:
    """In this block all that Python prints to stdout and stderr is shown as text. What a stream
    cannot encode is written as JSON writes it, and to one that is closed nothing."""
    # Python has None for a stream that was closed before it started.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        streams = [stream or nowhere for stream in (sys.stdout, sys.stderr)]
        for stream in map(unguarded, streams):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors=_IN_JSON)
        out, err = (cast(TextIO, _Shown(stream)) for stream in streams)
        with redirect_stdout(out), redirect_stderr(err):
            yield


def unguarded(stream: TextIO) -> TextIO:
    """The stream below the door, for who styles text that was `shown` before."""
    return stream.stream if isinstance(stream, _Shown) else stream


class _Shown:
    """A text stream that shows what is written to it; in all else it is the stream below."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = unguarded(stream)

    def write(self, text: str) -> int:
        self.stream.write(shown(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
