"""Rows that an erasure rejects when they come again, told by keyed digests: no value is kept."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from tidemark.judge.arrow import Array
from tidemark.judge.arrow import kernels as pc
from tidemark.judge.kinds import INTEGER_BITS, SimpleKind, arrow_type, kind_of

ComparedAs = Literal["text", "whole number"]
# Columns by their names, ascending.
Columns = tuple[tuple[str, ComparedAs], ...]
_NOTHING, _COLON = pa.scalar(b"", pa.binary()), pa.scalar(b":", pa.binary())


def compared_as(column_type: str) -> ComparedAs | None:
    """How the values of a declared type are compared; None: they are not. A whole number
    that becomes a wider one compares as before, and as a `double` or a decimal not at all."""
    kind = kind_of(column_type)
    if not isinstance(kind, SimpleKind):
        return None
    if kind.name == "string":
        return "text"
    return "whole number" if kind.name in INTEGER_BITS else None


def fingerprint(key: str) -> str:
    """By which a key is known again, and which does not tell it."""
    return hmac.digest(key.encode(), b"tidemark: the key of erasures", "sha256").hex()


def values_table(columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows of values in columns of declared types. OverflowError or ArrowInvalid where a value does
    not fit."""
    of_columns = [*zip(*rows, strict=True)] or [()] * len(columns)
    types = [arrow_type(kind_of(one)) for one in columns.values()]
    arrays = [pa.array(one, kind) for one, kind in zip(of_columns, types, strict=True)]
    return pa.table(arrays, names=[*columns])


@dataclass(frozen=True)
class KeyedDigests:
    """Digests of values, by the columns that have them: plain data, which can be sent to a task."""

    key: str = field(repr=False)
    digests: Mapping[Columns, frozenset[str]]

    @property
    def columns(self) -> tuple[str, ...]:
        """All that are asked."""
        return tuple(sorted({name for columns in self.digests for name, _ in columns}))

    def hits(self, rows: pa.Table) -> Any:
        """Which rows have values of a digest, as NumPy's booleans."""
        # A run that finds nothing new, which asks for the key alone, goes without NumPy
        # (`cli/without_pandas.py`).
        import numpy as np

        found = np.zeros(len(rows), np.bool_)
        for columns, digests in self.digests.items():
            # Each value is asked once.
            texts = _texts(columns, rows).dictionary_encode()
            known = [one in digests for one in _digests(self.key, columns, texts.dictionary)]
            hit = pa.array(known, pa.bool_()).take(texts.indices)
            found |= pc.fill_null(hit, False).to_numpy(zero_copy_only=False)
        return found


def row_digests(key: str, columns: Columns, rows: pa.Table) -> tuple[str, ...]:
    """A digest for each of the rows, of which none has a null in these columns."""
    return tuple(_digests(key, columns, _texts(columns, rows)))


def _digests(key: str, columns: Columns, texts: Array) -> Iterator[str]:
    """HMAC-SHA256 of the columns, in JSON, and the text of a row's values."""
    secret, before = key.encode(), f"{json.dumps(columns)}\n".encode()
    for text in texts.to_pylist():
        yield hmac.digest(secret, before + text, "sha256").hex()


def _texts(columns: Columns, rows: pa.Table) -> Array:
    """Of each row its values in one text, each behind its length in bytes, so that other values
    have another one; null where a value is."""
    parts: list[Any] = []
    for name, _ in columns:
        text = rows[name].combine_chunks().cast(pa.string()).cast(pa.binary())
        length = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
        parts += [length, _COLON, text]
    return pc.binary_join_element_wise(*parts, _NOTHING)
