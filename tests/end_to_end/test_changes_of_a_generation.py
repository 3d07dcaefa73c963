"""Each change that begins a generation: on a history with late rows, open windows and a held run,
in the three output modes and on both state stores; then further runs, the way back, and runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.generations import (
    MODES,
    WINDOW,
    ThreeRuns,
    goes_on,
    is_right,
    migrate,
    rolled_back,
)
from tests.kit.running import run_warm, sorted_rows, succeed
from tests.streaming.audits import event, gold_of
from tidemark.gold.state import gold_state
from tidemark.pipeline.settings.state import PROVIDER
from tidemark.runs.contract.contract import read_contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Content = Mapping[str, Any]
STORES = ("memory", "rocksdb")


def of_table(**changes: Any) -> Callable[[Content], Content]:
    def change(content: Content) -> Content:
        per_10m = content["tables"]["per_10m"] | changes
        return {**content, "tables": {"per_10m": per_10m}}

    return change


def of_pipeline(**changes: Any) -> Callable[[Content], Content]:
    return lambda content: {**content, **changes}


def in_mode(mode: str) -> Callable[[Content], Content]:
    return of_table(output_mode=mode, accept_unbounded_state=mode == "complete")


def on_the_other_store(content: Content) -> Content:
    other = STORES[STORES.index(content["advanced"]["state"]["store"]) - 1]
    return {**content, "advanced": {"state": {"store": other}}}


def with_partitions(content: Content) -> Content:
    return {**content, "advanced": {**content["advanced"], "shuffle_partitions": 3}}


def derived(content: Content) -> Content:
    """A key that bronze's rows do not have yet: theirs is null."""
    source = {**content["source"], "derive": {"large": "amount > 10"}}
    return of_table(group_by=["key", "large"])({**content, "source": source})


MORE = {**WINDOW["measures"], "largest": "max(amount)"}
CHANGES: dict[str, Callable[[Content], Content]] = {
    "a measure more": of_table(measures=MORE),
    "a measure less": of_table(measures={"events": "count(*)"}),
    "a measure changed": of_table(
        measures={"events": "count(*)", "amount": "sum(amount * 2)"},
    ),
    "measures swapped": of_table(measures={"events": "sum(amount)", "amount": "count(*)"}),
    "a measure renamed": of_table(
        measures={"events": "count(*)", "total": "sum(amount)"}, renamed_from={"total": "amount"}
    ),
    "another type": of_table(measures={"events": "count(*)", "amount": "max(key)"}),
    "a key more": of_table(group_by=["key", "amount"], measures={"events": "count(*)"}),
    "a key less": of_table(group_by=[]),
    "a key that is derived": derived,
    "another length and slide": of_table(window={"length": "20 minutes", "slide": "10 minutes"}),
    "another delay": of_pipeline(watermark={"delay": "30 minutes"}),
    "other partitions": with_partitions,
    "the other store": on_the_other_store,
    "update mode": in_mode("update"),
    "append mode": in_mode("append"),
    "complete mode": in_mode("complete"),
}
# The engine takes these on with the old checkpoint, or nothing differs: they are asked for.
ASKED_FOR = ("another delay", "a key that is derived")
CELLS = [
    (change, mode, store)
    for change in CHANGES
    for mode in MODES
    for store in STORES
    if change != f"{mode} mode"
]


@pytest.mark.long
@pytest.mark.parametrize(("change", "mode", "store"), CELLS)
def test_gold_is_right_behind_the_change_and_behind_the_way_back(
    spark: SparkSession, three_runs: ThreeRuns, change: str, mode: str, store: str
) -> None:
    place = three_runs(mode, store)
    before, state = sorted_rows(place.gold()), gold_state(gold_of(place))
    place.land("held.json", [event(10, 12, "a", 50), event(11, 40, "a", 3)])
    assert run_warm(spark, place, "held", hold=True).error is None
    new = replace(place, content=CHANGES[change](place.content))

    result = migrate(spark, new, rebuild=change in ASKED_FOR)
    assert (result.error, result.generation) == (None, 2)
    is_right(spark, new)
    goes_on(spark, new)
    contract = read_contract(new.places.contract("per_10m", 2), {})
    assert contract is not None
    on = new.content["advanced"]["state"]["store"]
    assert ("RocksDB" in contract.settings[PROVIDER]) == (on == "rocksdb")

    rolled_back(place)
    assert sorted_rows(place.gold()) == before
    after = gold_state(gold_of(place))
    assert (after.generation, after.close_ms) == (state.generation, state.close_ms)
    succeed(spark, place, "back")
    is_right(spark, place)
    place.land("6.json", [event(10, 25, "b", 30), event(12, 1, "a", 4)])
    succeed(spark, place, "run-7")
    is_right(spark, place)
