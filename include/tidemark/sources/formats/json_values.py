"""Columns of Arrow as JSON lines, many rows at once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc

NULL = pa.scalar("null")


def lines_of_columns(names: Sequence[str], values: Sequence[Array]) -> Array:
    """A line (binary) for each row: an object of these fields, of whose values JSON is given."""
    parts: list[object] = []
    for place, (name, column) in enumerate(zip(names, values, strict=True)):
        begin = "{" if place == 0 else ", "
        parts.append(pa.scalar(f"{begin}{json.dumps(name, ensure_ascii=False)}: "))
        parts.append(column)
    return pc.binary_join_element_wise(*parts, pa.scalar("}"), "").cast(pa.binary())


def quoted(texts: Array) -> Array:
    """Texts without control characters as JSON has them; null stays null."""
    escaped = texts
    if pc.any(pc.match_substring_regex(texts, r'["\\]')).as_py():
        escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    quote = pa.scalar('"')
    return pc.binary_join_element_wise(quote, escaped, quote, "")
