"""Measures that name measures above them: what they become, and which names are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.pipeline.conftest import GOOD, Load, Problems
from tests.pipeline.test_expressions import SCOPE
from tidemark.pipeline.expressions.sql import LONGEST, check_measures, in_full
from tidemark.pipeline.model import Pipeline

MEASURES = "measures: {clicks: count(*), longest: max(took)}"


def told(measures: dict[str, str]) -> dict[str, list[tuple[int, str]]]:
    """The faults of measures that have any: where, and what."""
    found = check_measures(measures, SCOPE)
    return {
        name: [(one.offset, one.message) for one in faults]
        for name, faults in found.items()
        if faults
    }


# `n` is `count(*)`, and `l` a column and a measure, `sum(l)`.
FULL = {
    "n / l": "count(*) / sum(l)",
    "max(l) / l": "max(l) / sum(l)",
    "L + `n`": "sum(l) + count(*)",
    "-both": "-(sum(l) - count(*) /* less */ - 1)",
    "both / 2 -- half": "(sum(l) - count(*) /* less */ - 1) / 2 -- half",
    "count(*) filter (where l > 1) / n": "count(*) filter (where l > 1) / count(*)",
    "concat(word, 'n', 'it''s', word)": "concat(('n ' || max(s)), 'n', 'it''s', ('n ' || max(s)))",
    "case n when l then both else 0 end": (
        "case count(*) when sum(l) then (sum(l) - count(*) /* less */ - 1) else 0 end"
    ),
    "aggregate(array(n), 0, (l, x) -> l + x) + l": (
        "aggregate(array(count(*)), 0, (l, x) -> l + x) + sum(l)"
    ),
    "`end` + first": "count_if(b) + max(i)",
    "timestampdiff(hour, hour, max(ts))": "timestampdiff(hour, min(ts), max(ts))",
    "`any` and n > 1": "(any(b)) and count(*) > 1",
}
ABOVE = {
    "n": "count(*)",
    "l": "sum(l)",
    "both": "l - n /* less */ - 1 -- and no more",
    "word": "'n ' || max(s)",
    "end": "count_if(b)",
    "first": "max(i)",
    "hour": "min(ts)",
    "any": "any(b)",
}


@pytest.mark.parametrize("text", FULL)
def test_a_name_outside_of_an_aggregate_is_the_measure_above_in_full(text: str) -> None:
    measures = {**ABOVE, "asked": text}
    assert told(measures) == {}
    full = in_full(measures)
    assert full["asked"] == FULL[text]
    assert in_full(full) == full


def test_measures_that_name_no_other_stay_as_they_are_written() -> None:
    measures = {"l": "sum(l) -- all", "i": "max(l)", "st": "count_if(st.x > i)"}
    assert told(measures) == {}
    assert in_full(measures) == measures


REFUSED = {
    "sum(n)": (4, "`n` is a measure; an aggregate is over columns, not over others"),
    "count(*) filter (where n > 1) / n": (
        *(23, "`n` is a measure; an aggregate is over columns, not over others"),
    ),
    "max(below) / n": (
        *(4, "`below` is a measure; an aggregate is over columns, not over others"),
    ),
    "n / below": (4, "`below` is no measure above this one, and only these can be named"),
    "asked + n": (0, "`asked` is no measure above this one, and only these can be named"),
    "n / i": (4, "`i` stands outside an aggregate"),
    "whole.x / n": (0, "`whole` is a measure, which is named without its fields"),
    "text / n": (0, "`/` needs a number, and has text"),
    "n + n * length(count_if(b)) + text": (30, "`+` needs a number, and has text"),
    "n / summ(i)": (4, "calls `summ`, which Spark does not have"),
    "n + sum(text)": (8, "`text` is a measure; an aggregate is over columns, not over others"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_measure_cannot_name_is_refused_where_it_stands(text: str) -> None:
    above = {"n": "count(*)", "whole": "max(st)", "text": "max(s)"}
    assert told({**above, "asked": text, "below": "count(*)"}) == {"asked": [REFUSED[text]]}


def test_a_misspelled_measure_is_told_with_the_nearest() -> None:
    (fault,) = check_measures({"orders": "count(*)", "share": "1 / ordrs"}, SCOPE)["share"]
    assert (fault.offset, fault.nearest) == (4, "orders")
    assert "`ordrs` is not a column" in fault.message


def test_a_fault_is_told_once_and_not_of_each_that_names_it(problems: Problems) -> None:
    wrong = "measures: {clicks: summ(took), each: 3 / clicks, both: each + clicks, other: summ(1)}"
    found = [one.field for one in problems((MEASURES, wrong))]
    assert found == [f"tables.page_10m.measures.{name}" for name in ("clicks", "other")]
    wrong = "measures: {clicks: 7, each: 3 / clicks}"
    assert [one.field for one in problems((MEASURES, wrong))] == ["tables.page_10m.measures.clicks"]


def test_measures_that_grow_by_each_other_are_refused_before_they_take_memory() -> None:
    names = ["n", *(f"n{number}" for number in range(60))]
    doubled = {after: f"{before} + {before}" for before, after in pairwise(names)}
    found = told({"n": "count(*)", **doubled})
    assert list(found) == ["n8"]
    assert "is too long" in found["n8"][0][1]
    long = {"n": f"sum(i{' + i' * 900})", "asked": "n + " * 30 + "n"}
    message = f"is too long with the measures that it names: at most {LONGEST:,} characters"
    assert told(long) == {"asked": [(0, message)]}
    nested = {after: f"1 + {before}" for before, after in pairwise(names)}
    found = told({"n": "count(*)", **nested})
    assert [faults[0][0] for faults in found.values()] == [4]
    assert "is nested too deeply" in found["n30"][0][1]


def test_a_pipeline_has_measures_over_columns_alone(load: Load) -> None:
    ratio = "measures: {took: sum(took), clicks: count(*), mean: took / clicks}"
    written = GOOD.replace(MEASURES, ratio)
    pipeline = load(written)
    assert pipeline.tables["page_10m"].measures["mean"] == "sum(took) / count(*)"
    # Nothing of a ratio is left for those who read what was recorded.
    again = Pipeline.model_validate_json(pipeline.model_dump_json())
    assert again == pipeline
    assert load(written.replace("took / clicks", "sum(took) / count(*)")) == pipeline


def test_a_check_of_a_ratio_knows_what_it_is_made_of(problems: Problems) -> None:
    ratio = "measures: {clicks: count(*), text: max(page), again: text}\n    checks: [fail: %s]"
    assert problems((MEASURES, ratio % "again like 'a%'")) == ()
    (found,) = problems((MEASURES, ratio % "again > 5"))
    assert found.field == "tables.page_10m.checks.0.fail"
