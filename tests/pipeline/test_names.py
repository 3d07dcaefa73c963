"""Names that are one to Spark's resolver: wherever a file has two of them, it is refused."""

from __future__ import annotations

import pytest

from tests.pipeline.conftest import Problems
from tidemark.pipeline.names import folded, same_column


@pytest.mark.parametrize(
    ("one", "other"),
    [("s", "ſ"), ("k", "\u212a"), ("i", "İ"), ("I", "ı"), ("ς", "Σ"), ("É", "é"), ("ẞ", "ß")],
)
def test_java_takes_both_for_one(one: str, other: str) -> None:
    assert folded(one) == folded(other)


def test_a_letter_is_never_several() -> None:
    assert folded("straße") != folded("STRASSE")
    assert folded("ﬁ") != folded("fi")


def test_a_column_is_looked_up_in_lower_case_first() -> None:
    assert same_column("É", "é")
    assert not same_column("s", "ſ")


CLASHES = [
    ("took: long", "took: long\n    TOOK: long", "has the name of the column `took`"),
    ("took: long", "s: long\n    ſ: long", "Spark does not tell them apart"),
    ("took: long", "k: long\n    \u212a: long", "has the name of the column `k`"),
    ("{slow: took > 500, ", "{tooK: took > 500, slow: took > 500, ", "has the name of the column"),
    ("clicks: count(*)", "ſtatus: count(*)", "is kept for a column of the platform"),
    ("clicks: count(*)", "\u017flow: count(*)", "has the same name as the key `slow`"),
    ("[page, slow]", "[page, ſlow]", "is neither a column nor a derived name"),
]


@pytest.mark.parametrize(("old", "new", "message"), CLASHES)
def test_names_that_are_one_to_spark_are_refused(
    problems: Problems, old: str, new: str, message: str
) -> None:
    assert any(message in found.text for found in problems((old, new)))


def test_what_no_table_can_keep_is_told_with_its_place(problems: Problems) -> None:
    found = problems(
        (
            "{slow: took > 500, very_slow: slow and took > 5000}",
            "{slow: 'if(took > 1, null, null)', lag: at - at}",
        ),
        ("longest: max(took)", "longest: max(at) - min(at)"),
    )
    assert [(one.field, one.value) for one in found] == [
        ("source.derive.slow", "if(took > 1, null, null)"),
        ("source.derive.lag", "at - at"),
        ("tables.page_10m.measures.longest", "max(at) - min(at)"),
    ]
