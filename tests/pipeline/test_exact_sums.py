"""Which part of a measure is added in more digits, by its text alone."""

from __future__ import annotations

import pytest

from tidemark.pipeline.expressions.exact_sums import exact_sums


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("sum(a)", "cast(sum(cast(a as decimal(38, 0))) as bigint)"),
        ("try_sum (a)", "try_cast(sum(cast(a as decimal(38, 0))) as bigint)"),
        ("SUM(ALL a)", "cast(sum(ALL cast(a as decimal(38, 0))) as bigint)"),
        ("sum(distinct a)", "cast(sum(distinct cast(a as decimal(38, 0))) as bigint)"),
        (
            "sum(a) FILTER (WHERE b > ')') / 2",
            "cast(sum(cast(a as decimal(38, 0))) FILTER (WHERE b > ')') as bigint) / 2",
        ),
        (
            "sum(a) / sum(`b)`)",
            "cast(sum(cast(a as decimal(38, 0))) as bigint)"
            " / cast(sum(cast(`b)` as decimal(38, 0))) as bigint)",
        ),
        (
            "sum(length('it''s)') + (a)) > 1",
            "cast(sum(cast(length('it''s)') + (a) as decimal(38, 0))) as bigint) > 1",
        ),
        (
            "sum(o.a -- b)\n)",
            "cast(sum(cast(o.a -- b)\n as decimal(38, 0))) as bigint)",
        ),
    ],
)
def test_each_sum_of_longs_is_added_in_more_digits(text: str, exact: str) -> None:
    assert exact_sums(text, lambda summed: True) == exact


@pytest.mark.parametrize("text", ["avg(a)", "count(sum)", "max('sum(a)')", "count(`sum`)", "rows"])
def test_what_is_no_sum_stays_as_it_is(text: str) -> None:
    assert exact_sums(text, lambda summed: True) == text


def test_a_sum_of_another_type_stays_as_it_is() -> None:
    found = exact_sums("sum(price) / sum(size)", lambda summed: summed == "size")
    assert found == "sum(price) / cast(sum(cast(size as decimal(38, 0))) as bigint)"
