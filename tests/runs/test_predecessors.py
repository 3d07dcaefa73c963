"""What a table's next generation takes over from the one before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.running import clicks
from tidemark.errors import PipelineInvalid
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.recompute.predecessors import Predecessors, predecessors

TABLE: dict[str, Any] = {
    "window": {"length": "10 minutes"},
    "group_by": ["key"],
    "measures": {"events": "count(*)", "amount": "sum(amount)"},
}
OWN = {"window_end": "window_end", "rows": "rows"}
SAME = {"window_start": "window_start", "key": "key"}


def operator(**changes: Any) -> Operator:
    pipeline = pipeline_from_mapping("clicks", clicks(tables={"per_10m": TABLE | changes}))
    return operator_of(pipeline, "per_10m")


def found(**changes: Any) -> Predecessors:
    return predecessors(operator(), operator(**changes))


def test_an_unchanged_table_takes_over_all() -> None:
    values = {**OWN, "events": "events", "amount": "amount"}
    assert found() == Predecessors(SAME, values, frozenset(values))


def test_a_new_measure_has_no_predecessor_and_a_dropped_one_is_nobodys() -> None:
    more = found(measures={"events": "count(*)", "largest": "max(amount)"})
    assert more.identity == SAME
    assert more.values == {**OWN, "events": "events"}


def test_a_measure_of_another_meaning_is_compared_and_not_kept() -> None:
    other = found(measures={"events": "count(*)", "amount": "max(amount)"})
    assert other.values["amount"] == "amount"
    assert other.kept == {"window_end", "rows", "events"}


def test_another_spelling_has_the_same_meaning() -> None:
    assert "amount" in found(measures={"amount": "SUM( amount )"}).kept


def test_renamed_keys_and_measures_are_what_they_were() -> None:
    source = clicks()["source"]
    source["derive"] = {"name": "key"}
    tables = {"per_10m": TABLE | {"group_by": ["name"], "renamed_from": {"name": "key"}}}
    pipeline = pipeline_from_mapping("clicks", clicks(source=source, tables=tables))
    renamed = predecessors(operator(), operator_of(pipeline, "per_10m"))
    assert renamed.identity == {"window_start": "window_start", "name": "key"}
    total = found(measures={"total": "sum(amount)"}, renamed_from={"total": "amount"})
    assert total.values == {**OWN, "total": "amount"}
    assert "total" in total.kept


def test_what_was_renamed_with_the_former_generation_is_not_renamed_again() -> None:
    renamed = {
        "measures": {"total": "sum(amount)", "events": "count(*)"},
        "renamed_from": {"total": "amount"},
    }
    more = {**renamed, "measures": {**renamed["measures"], "largest": "max(amount)"}}
    assert predecessors(operator(**renamed), operator(**more)) == Predecessors(
        SAME, {**OWN, "total": "total", "events": "events"}, frozenset([*OWN, "total", "events"])
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"group_by": []},
        {"group_by": ["key", "amount"], "measures": {"events": "count(*)"}},
        {"window": {"length": "20 minutes"}},
        {"window": {"length": "10 minutes", "slide": "5 minutes"}},
    ],
)
def test_rows_of_another_window_or_other_keys_are_others(changes: dict[str, Any]) -> None:
    assert found(**changes).identity is None


def test_keys_in_another_order_are_the_same() -> None:
    two = operator(group_by=["key", "amount"], measures={"events": "count(*)"})
    swapped = operator(group_by=["amount", "key"], measures={"events": "count(*)"})
    assert predecessors(two, swapped).identity == {**SAME, "amount": "amount"}


@pytest.mark.parametrize(
    ("renamed", "told"),
    [
        ({"other": "amount"}, "other is no key and no measure"),
        ({"events": "amount"}, "amount is still a column of the table"),
        ({"events": "old", "amount": "old"}, "old cannot become two columns"),
    ],
)
def test_what_cannot_have_been_renamed_is_refused(renamed: dict[str, str], told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        operator(renamed_from=renamed)
