"""Which conditions say nothing but which values columns have."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.pipeline.expressions.sql import equalities


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("userId = 7", {"userId": (7,)}),
        ("7 = userId", {"userId": (7,)}),
        ("(userId = -7)", {"userId": (-7,)}),
        ("key = 'it''s'", {"key": ("it's",)}),
        ("`a b` = 'x' AND (n = 1 AND m == 2)", {"a b": ("x",), "n": (1,), "m": (2,)}),
        ("key IN ('x', 'y') and n = 1", {"key": ("x", "y"), "n": (1,)}),
        ("key IN ('7')", {"key": ("7",)}),
        ("userId IN (8, 7, 8, 07)", {"userId": (8, 7)}),
    ],
)
def test_values_are_told_by_columns(text: str, values: dict[str, Any]) -> None:
    assert equalities(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "userId = 7 OR userId = 8",
        "NOT userId = 7",
        "userId <> 7",
        "userId <=> 7",
        "userId > 7",
        "userId = 7.0",
        "userId = 7e1",
        "userId = 7L",
        "userId = NULL",
        "userId IN (7, NULL)",
        "userId NOT IN (7)",
        "userId = other",
        "userId = 3 + 4",
        "lower(key) = 'x'",
        "key = lower('X')",
        "key = CAST(7 AS STRING)",
        "key = 'x' COLLATE UTF8_LCASE",
        "key LIKE 'x'",
        "key = 'x' 'y'",
        "key = r'x' 'y'",
        "at = DATE '2026-01-01'",
        "person.id = 7",
        "key = 'x' AND key = 'x'",
        "key = 'x' AND flag",
        "key = 'x' = true",
        "true",
        "flag",
        "flag = true",
        "userId = 7 -- of the request",
        "userId = 7 /* of the request */",
        "userId =",
        "",
    ],
)
def test_what_says_more_is_none(text: str) -> None:
    assert equalities(text) is None
