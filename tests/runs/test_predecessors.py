"""What a table's next generation takes over from the one before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.kit.running import clicks
from tests.operators.contract.joins import OTHER, join_table, partner_pipeline
from tidemark.errors import PipelineInvalid
from tidemark.operators.joins.joins import Joins
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


LOOKUP: dict[str, Any] = {
    "file": "dims.csv",
    "on": {"key": "code"},
    "columns": {"city": "string", "price": "long", "since": "date"},
}
WORTH = {"events": "count(*)", "worth": "sum(Dims.price)", "most": "max(amount)"}


def looking_up(changed: dict[str, Any] | None = None, **of_table: Any) -> Operator:
    tables = {"per_10m": TABLE | {"measures": WORTH} | of_table}
    lookup = {"dims": LOOKUP | (changed or {})}
    return operator_of(
        pipeline_from_mapping("clicks", clicks(lookup=lookup, tables=tables)), "per_10m"
    )


@pytest.mark.parametrize("changed", [{"on": {"key": "old_code"}}, {"as_of": "since"}])
def test_what_finds_another_row_of_a_lookup_means_something_else(changed: dict[str, Any]) -> None:
    values = {**OWN, **dict(zip(WORTH, WORTH, strict=True))}
    kept = frozenset(values) - {"worth"}
    assert predecessors(looking_up(), looking_up(changed)) == Predecessors(SAME, values, kept)
    # Keys and conditions make other rows of it.
    for of_table in ({"group_by": ["dims.city"]}, {"where": "dims.city is not null"}):
        before, after = looking_up(**of_table), looking_up(changed, **of_table)
        assert predecessors(before, after).identity is None
        assert predecessors(before, looking_up(**of_table)).identity is not None


def test_rows_that_a_lookup_leaves_out_are_others() -> None:
    leaves_out = {"on_missing": "leave_out"}
    assert predecessors(looking_up(), looking_up(leaves_out)).identity is None
    assert predecessors(looking_up(leaves_out), looking_up(leaves_out)).identity == SAME
    by_another = leaves_out | {"on": {"key": "old_code"}}
    assert predecessors(looking_up(leaves_out), looking_up(by_another)).identity is None
    # Named no more, it leaves nothing out.
    without = operator(measures={"events": "count(*)"})
    assert predecessors(looking_up(leaves_out), without).identity is None
    assert predecessors(looking_up(), without).identity == SAME
    assert predecessors(without, looking_up()).identity == SAME


def test_a_column_or_a_place_more_of_a_lookup_changes_nothing_else() -> None:
    more = looking_up({"file": "other.csv"}, measures={**WORTH, "city": "max(dims.city)"})
    found = predecessors(looking_up(), more)
    assert found.identity == SAME
    assert found.kept == {*OWN, *WORTH}


def test_a_key_that_a_lookup_says_now_is_another_one() -> None:
    source = clicks()["source"]
    source["derive"] = {"dims_city": "key"}
    table = TABLE | {"group_by": ["dims_city"], "measures": {"events": "count(*)"}}
    of_bronze = operator_of(
        pipeline_from_mapping("clicks", clicks(source=source, tables={"per_10m": table})),
        "per_10m",
    )
    of_lookup = looking_up(group_by=["dims.city"], measures={"events": "count(*)"})
    assert of_bronze.identity == of_lookup.identity
    assert predecessors(of_bronze, of_lookup).identity is None
    assert predecessors(of_lookup, of_bronze).identity is None


def test_rows_that_match_by_another_time_are_others() -> None:
    table = join_table("left")
    joined = {"partners": {OTHER: partner_pipeline().as_partner()}, "tables": {"t": table}}
    pipeline = pipeline_from_mapping("clicks", clicks()).model_copy(update=joined)
    former = operator_of(pipeline, "t")
    assert isinstance(former, Joins)
    assert predecessors(former, former).identity == SAME
    assert predecessors(former, replace(former, other_event_time="paid")).identity is None


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
