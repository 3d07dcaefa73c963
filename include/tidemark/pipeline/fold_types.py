"""The types that what a fold puts out can have: the simple ones, and arrays of these."""

from __future__ import annotations

from tidemark.pipeline.column_types import parse_type

ALLOWED = "string, boolean, byte, short, int, long, float, double, decimal(p,s), date, timestamp, "
ALLOWED += "binary, array<…> of these"

_ARRAY = "array<"


def emitted_type(text: str) -> str:
    """The type as Spark's DDL has it; ValueError says what is wrong."""
    parsed = parse_type(text)
    if not parsed.nullable:
        raise ValueError("is a type with `not null`; an output may leave any of its columns out")
    if "map<" in parsed.type or "struct<" in parsed.type:
        raise ValueError(f"is no type that a fold can put out; allowed: {ALLOWED}")
    return parsed.type


def element_of(kind: str) -> str | None:
    """The type of an array's elements; None of what is no array."""
    return kind[len(_ARRAY) : -1] if kind.startswith(_ARRAY) else None
