"""What `source.rules` may say in a pipeline's file."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.running import clicks
from tidemark.pipeline import reasons
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.problems import PipelineFileInvalid


def ruled(*rules: dict[str, Any]) -> dict[str, Any]:
    derive = {"double": "amount * 2", "parsed": "from_json(key, 'ok boolean').ok"}
    return clicks(source={**clicks()["source"], "derive": derive, "rules": list(rules)})


def told(*rules: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(PipelineFileInvalid) as refused:
        pipeline_from_mapping("clicks", ruled(*rules))
    return [(one.field, one.message) for one in refused.value.problems]


def rule(**changes: Any) -> dict[str, Any]:
    return {"name": "negative amount", **changes}


def test_conditions_are_over_columns_and_derived_ones_also_of_types_that_only_spark_knows() -> None:
    found = pipeline_from_mapping(
        "clicks",
        ruled(
            rule(reject="amount < 0"),
            rule(name="no key", count="key is null or double > 7"),
            rule(name="not ok", reject="not parsed"),
        ),
    ).source.rules
    assert [(one.name, one.reject is None, one.condition) for one in found] == [
        ("negative amount", False, "amount < 0"),
        ("no key", True, "key is null or double > 7"),
        ("not ok", False, "not parsed"),
    ]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("amount", "is no condition: it should be true or false for a row"),
        ("amount + 1", "is no condition"),
        ("max(amount) > 1", "max is an aggregate; a rule is told by one row"),
        ("count(*) over () > 1", "count is an aggregate"),
        ("row_number() > 1", "window function"),
        ("rand() > 0.5", "gives another value each time"),
        ("at > current_timestamp()", "reads the clock"),
        ("amount in (select 1)", "has a subquery"),
        ("select true", "is a query"),
        ("amont < 0", "`amont` is not a column"),
        ("amount <", "cannot be read as SQL"),
        ("amount > 'many'", "compares a number with the text 'many'"),
        ("key rlike '(a|b)*c'", "a repetition over a choice"),
    ],
)
@pytest.mark.parametrize("act", ["reject", "count"])
def test_what_is_no_condition_on_one_row_is_refused_at_its_place(
    act: str, sql: str, message: str
) -> None:
    ((path, found),) = told(rule(name="good", reject="amount < 0"), rule(**{act: sql}))
    assert path == f"source.rules.1.{act}"
    assert message in found


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        ({}, "source.rules.0", "needs exactly one of reject, count"),
        (
            {"reject": "amount < 0", "count": "amount < 0"},
            "source.rules.0",
            "needs exactly one of reject, count",
        ),
        ({"reject": True}, "source.rules.0.reject", "should be text; put it in quotes"),
        ({"rejects": "amount < 0"}, "source.rules.0.rejects", "is not a known key; allowed: name"),
        ({"name": " a", "reject": "amount < 0"}, "source.rules.0.name", "cannot name a rule"),
        ({"name": "a\nb", "reject": "amount < 0"}, "source.rules.0.name", "cannot name a rule"),
        ({"name": "", "reject": "amount < 0"}, "source.rules.0.name", "is empty"),
    ],
)
def test_what_is_no_rule_is_refused_at_its_place(
    given: dict[str, Any], path: str, message: str
) -> None:
    found = told(rule(**given))
    assert [one for one, _ in found] == [path]
    assert message in found[0][1]


@pytest.mark.parametrize("name", [*sorted(reasons.REASONS), "Duplicate"])
def test_a_reason_that_rejects_have_without_rules_names_no_rule(name: str) -> None:
    ((path, message),) = told(rule(name=name, count="amount < 0"))
    assert path == "source.rules.0.name"
    assert message == "is a reason that rejects have without a rule; choose another name"


def test_every_reason_is_among_those_that_name_no_rule() -> None:
    named = {value for value in vars(reasons).values() if isinstance(value, str)}
    own = {vars(reasons)[name] for name in vars(reasons) if name.isupper()} & named
    assert own == reasons.REASONS


def test_two_rules_have_two_names() -> None:
    ((path, message),) = told(rule(reject="amount < 0"), rule(name="Negative Amount", count="true"))
    assert path == "source.rules.1.name"
    assert "is the name of another rule: `negative amount`" in message
