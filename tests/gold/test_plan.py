"""What publish decides from pinned numbers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemark.errors import NotPublishable
from tidemark.gold.pins import Dependency, TableResult
from tidemark.gold.plan import GoldState, plan_publish

GOLD = GoldState(version=7, changes=4, inputs={"bronze": 5}, close_ms=1_000, generation=1)


def pinned(**changes: Any) -> TableResult:
    values: dict[str, Any] = {
        "generation": 1,
        "changes": 6,
        "inputs": {"bronze": 9},
        "windows_changed": 3,
        "watermark_before_ms": 1_000,
        "watermark_after_ms": 2_000,
        "close_before_ms": 1_000,
        "close_after_ms": 2_000,
    }
    return TableResult(**values | changes)


def test_a_plan_takes_the_changes_after_those_published_up_to_the_pin() -> None:
    plan = plan_publish(GOLD, pinned())
    assert (plan.after_changes, plan.changes) == (4, 6)
    assert (plan.close_before_ms, plan.close_after_ms) == (1_000, 2_000)
    assert not plan.nothing_to_do


def test_the_transactions_are_the_pins() -> None:
    plan = plan_publish(GOLD, pinned())
    assert plan.transactions == {"changes": 6, "bronze": 9, "close": 2_000, "generation": 1}


@pytest.mark.parametrize("changes", [0, 3, 4])
def test_a_pin_at_or_below_what_is_published_leaves_nothing_to_do(changes: int) -> None:
    assert plan_publish(GOLD, pinned(changes=changes, close_after_ms=1_000)).nothing_to_do


def test_a_frontier_that_moves_is_work_without_any_change() -> None:
    plan = plan_publish(GOLD, pinned(changes=4, close_after_ms=1_001))
    assert not plan.nothing_to_do


def test_changes_are_work_without_a_frontier_that_moves() -> None:
    assert not plan_publish(GOLD, pinned(close_after_ms=1_000)).nothing_to_do


@pytest.mark.parametrize("close", [0, 999, 1_000])
def test_the_frontier_never_goes_back(close: int) -> None:
    plan = plan_publish(GOLD, pinned(close_after_ms=close))
    assert plan.close_after_ms == 1_000
    assert plan.transactions["close"] == 1_000


def test_the_published_changes_never_go_back() -> None:
    assert plan_publish(GOLD, pinned(changes=2)).transactions["changes"] == 4


def test_before_the_first_publish_the_plan_begins_with_version_zero() -> None:
    empty = GoldState(version=0, changes=-1, inputs={"bronze": -1}, close_ms=0, generation=1)
    plan = plan_publish(empty, pinned(changes=0, close_before_ms=0, close_after_ms=0))
    assert (plan.after_changes, plan.changes) == (-1, 0)


def test_a_run_that_found_another_frontier_is_not_published() -> None:
    with pytest.raises(NotPublishable, match=r"closed up to 1970-01-01T00:00:00.900Z.*01Z"):
        plan_publish(GOLD, pinned(close_before_ms=900))


def test_a_run_that_found_another_frontier_but_is_published_is_a_no_op() -> None:
    assert plan_publish(
        GOLD, pinned(close_before_ms=900, changes=4, close_after_ms=900)
    ).nothing_to_do


def test_the_published_bronze_never_goes_back() -> None:
    assert plan_publish(GOLD, pinned(inputs={"bronze": 3})).transactions["bronze"] == 5


@pytest.mark.parametrize("older", [{"changes": 3}, {"changes": 4, "inputs": {"bronze": 4}}])
def test_pins_of_an_older_run_than_was_published_last_close_nothing(older: dict[str, int]) -> None:
    """The newer run may have found windows open that the older one wanted to seal."""
    plan = plan_publish(GOLD, pinned(**older))
    assert plan.nothing_to_do
    assert plan.close_after_ms == 1_000


@pytest.mark.parametrize(("behind", "nothing"), [(19, True), (20, False)])
def test_bronze_is_noted_by_itself_only_once_gold_is_far_behind(behind: int, nothing: bool) -> None:
    inputs = {"bronze": GOLD.bronze + behind}
    plan = plan_publish(GOLD, pinned(changes=4, close_after_ms=0, inputs=inputs))
    assert plan.nothing_to_do is nothing


@pytest.mark.parametrize("flag", ["has_recomputed", "has_replayed"])
def test_what_may_have_changed_nothing_is_noted_once(flag: str) -> None:
    """Backfills and audits would leave its rows out else."""
    pins = pinned(changes=4, close_after_ms=1_000, inputs={"bronze": 6}, **{flag: True})
    assert not plan_publish(GOLD, pins).nothing_to_do
    assert plan_publish(replace(GOLD, inputs={"bronze": 6}), pins).nothing_to_do


def test_pins_of_a_version_that_did_not_say_what_was_computed_again_wait_as_they_did() -> None:
    pins = pinned(changes=4, close_after_ms=1_000, inputs={"bronze": 6}).model_dump()
    del pins["has_recomputed"]
    assert plan_publish(GOLD, TableResult(**pins)).nothing_to_do


RESTS_ON = {"changes": Dependency(id="c", at=4), "ingest": Dependency(id="q", at=-1)}


def test_the_transactions_name_what_the_publish_rests_on() -> None:
    plan = plan_publish(GOLD, pinned(rests_on=RESTS_ON))
    assert plan.transactions == {
        **plan_publish(GOLD, pinned()).transactions,
        "identities": 1,
        "changes/c": 4,
        "ingest/q": -1,
    }


def test_what_it_rests_on_never_goes_back() -> None:
    gold = replace(GOLD, identified=True, noted={"changes/c": 9, "ingest/other": 7})
    assert plan_publish(gold, pinned(rests_on=RESTS_ON)).transactions["changes/c"] == 9


@pytest.mark.parametrize(
    ("noted", "nothing_to_do"),
    [
        ({"changes/c": 4}, True),
        ({}, False),
        ({"changes/other": 4}, False),
        ({"changes/c": 3}, False),
    ],
)
def test_gold_that_does_not_say_what_it_rests_on_gets_a_commit_that_does(
    noted: dict[str, int], nothing_to_do: bool
) -> None:
    pins = pinned(changes=4, close_after_ms=1_000, inputs={"bronze": 5}, rests_on=RESTS_ON)
    assert plan_publish(replace(GOLD, noted=noted), pins).nothing_to_do == nothing_to_do
