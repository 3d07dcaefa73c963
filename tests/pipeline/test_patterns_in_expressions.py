"""Whichever call takes a pattern: one that no run may match, or that a row brings, is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.test_expressions import SCOPE
from tidemark.pipeline.expressions.sql import check_derived, check_measure, patterns_of

# Each with the pattern `{}`; `{}` is the second argument's place.
REGULAR = [
    "s rlike {}",
    "s regexp {}",
    "not s rlike {}",
    "rlike(s, {})",
    "regexp(s, {})",
    "regexp_like(s, {})",
    "regexp_replace(s, {}, 'x')",
    "regexp_extract(s, {}, 0)",
    "regexp_extract_all(s, {}, 0)",
    "regexp_count(s, {})",
    "regexp_instr(s, {})",
    "regexp_substr(s, {})",
    "split(s, {})",
    "split(s, {}, 2)",
    "str_to_map(s, {})",
    "str_to_map(s, ',', {})",
    "parse_url(s, 'QUERY', {})",
    "try_parse_url(s, 'QUERY', {})",
    "s rlike any ('x', {})",
    "s rlike all ('x', {})",
    "case when s rlike {} then 1 end",
]
LIKE = ["s like {}", "s not like {}", "s ilike {}", "like(s, {})", "s like any ('x', {})",
        "s like all ({}, 'x')", "s like {} escape '/'"]  # fmt: skip
WRITTEN = ["'{}'", "r'{}'", "'x' '{}'", "concat('x', '{}')", "('x' || '{}')"]


def faults(call: str, pattern: str) -> list[str]:
    return [one.message for one in check_derived(call.replace("{}", pattern), SCOPE)[0]]


@pytest.mark.parametrize("call", REGULAR)
@pytest.mark.parametrize("written", WRITTEN)
def test_a_pattern_without_end_is_refused_wherever_it_stands(call: str, written: str) -> None:
    (said,) = faults(call, written.replace("{}", "(?:a|b)*c"))
    assert "has `(?:a|b)*`, a repetition over a choice" in said
    assert faults(call, written.replace("{}", "[ab]*c")) == []


@pytest.mark.parametrize("call", [*REGULAR, *LIKE])
@pytest.mark.parametrize("pattern", ["s", "upper(s)", "concat('a', s)", "'a' || s", "lower('a')"])
def test_a_pattern_that_is_not_written_out_is_refused(call: str, pattern: str) -> None:
    (said,) = faults(call, pattern)
    assert "is not written out" in said


@pytest.mark.parametrize("call", LIKE)
def test_like_takes_what_is_written_out_and_no_regular_expression(call: str) -> None:
    assert faults(call, "'%(a|b)*_'") == []
    assert patterns_of(call.replace("{}", "'(a|b)*'")) == []


def test_a_row_s_own_part_is_no_pattern_either() -> None:
    assert "is not written out" in faults("filter(split(s, ','), p -> s rlike p)", "")[0]


@pytest.mark.parametrize("call", ["count_if({})", "count(*) filter (where {})"])
def test_a_measure_s_pattern_is_looked_at_as_a_derived_one(call: str) -> None:
    asked = call.replace("{}", "s rlike '(?:a|b)*c'")
    (fault,) = check_measure(asked, SCOPE)
    assert "a repetition over a choice" in fault.message


@given(st.sampled_from(REGULAR), st.sampled_from(WRITTEN), st.text("abc", min_size=1))
def test_every_pattern_that_is_written_out_is_read_by_java_too(
    call: str, written: str, text: str
) -> None:
    """Before a run plans its columns."""
    asked = call.replace("{}", written.replace("{}", text))
    assert any(pattern.endswith(text) for pattern in patterns_of(asked))
