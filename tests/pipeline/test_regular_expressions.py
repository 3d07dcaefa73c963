"""Patterns that may take time or stack without end are refused; the usual ones are not."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.pipeline.expressions.regular_expressions import why_refused

REFUSED = [
    "^(a+)+$",
    "(a*)*",
    "(a|b)*c",
    "(?:a|b)*c",
    "(?i:a|b)+",
    "(?<name>a|b)+",
    "(?P<name>a|b)+",
    "(?>a|b)*",
    "(?:a|b){2,}",
    "(?:a?){30}",
    "(a|b){17}",
    "((a|b)c)*",
    "(?:(?:a|b))*",
    "(?:a{1,3})*",
    "(.*,){11}P",
    "(?:a++b)*",
    "(?:a|b)*?c",
    "(?=(a|b)*c)d",
    "x(?:[()]+y)*",
    r"\Q(\E(?:a+)*",
    r"\\(a+)+",
    r"(\p{L}+ ?)+",
    r"x\R+",
    r"(?:\X)*y",
    "(?x) (a+ #)\n )+",
    "(" * 500 + "a" + ")" * 500,
    "[" * 5000,
]
ALLOWED = [
    "",
    "a*b+c?",
    "^[a-z]+$",
    "(a|b)",
    "(a|b)?c",
    "(ab)*c",
    "(?:a{3}b)*c",
    "[a|b]*c",
    "[(a+)+]*",
    r"(\d{1,3}\.){3}\d{1,3}",
    r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}",
    "([0-9a-f]{2}:){5}[0-9a-f]{2}",
    "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}",
    "(?:a|b){1,5}",
    "(?:a|b)*+c",
    "(https?://)?(www[.])?[a-z.]+",
    r"\(a+\)+",
    r"\Q(a+)+\E",
    r"\Q(a+)+",
    "[]a](b)+",
    "[[:alpha:]]+",
    "[a-z&&[^b]]+",
    r"\p{Lu}+\x{41}*",
    r"\R(?:\R|\X)?\\R+",
    "(?i)abc",
    "(?i:abc)+",
    "(a+){0}",
    "(a+){1}",
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_repetition_over_a_choice_is_refused(pattern: str) -> None:
    assert why_refused(pattern) is not None


@pytest.mark.parametrize("pattern", ALLOWED)
def test_a_pattern_whose_work_is_bounded_is_not_refused(pattern: str) -> None:
    assert why_refused(pattern) is None


def test_the_refusal_shows_the_part_and_what_to_write() -> None:
    said = why_refused("^x(?:a|b)*c")
    assert said is not None
    assert "`(?:a|b)*`" in said
    assert "`[ab]*`" in said


@dataclass(frozen=True)
class Part:
    """A pattern, whether it can fit in several ways, and whether such a one is repeated."""

    text: str
    choice: bool = False
    refused: bool = False


def _joined(parts: list[Part], by: str) -> Part:
    return Part(
        by.join(part.text for part in parts),
        any(part.choice for part in parts) or (by == "|" and len(parts) > 1),
        any(part.refused for part in parts),
    )


def _repeated(part: Part, opens: str, times: str) -> Part:
    endless = times[0] in "*+" or times.endswith(",}")
    fixed = times == "{3}"
    return Part(
        f"{opens}{part.text}){times}",
        part.choice or not fixed,
        part.refused or (part.choice and endless),
    )


SINGLE = st.sampled_from(["a", "b", ".", "[(|*]", r"\(", r"\|", r"\d", "[^)+]", "[]]"]).map(Part)
PARTS = st.recursive(
    SINGLE,
    lambda inner: st.one_of(
        st.builds(_joined, st.lists(inner, min_size=1, max_size=3), st.just("")),
        st.builds(
            _repeated,
            st.builds(_joined, st.lists(inner, min_size=1, max_size=2), st.sampled_from(["|"])),
            st.sampled_from(["(", "(?:", "(?i:", "(?="]),
            st.sampled_from(["*", "+", "{2,}", "*?", "?", "{3}"]),
        ),
    ),
    max_leaves=8,
)


@given(PARTS)
def test_whatever_repeats_a_choice_without_end_is_refused_and_what_has_none_is_not(
    part: Part,
) -> None:
    re.compile(part.text)
    said = why_refused(part.text)
    if part.refused:
        assert said is not None
    if said is None:
        assert not part.refused
    if "{3}" not in part.text:
        assert (said is not None) == part.refused
