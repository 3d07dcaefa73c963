"""Stores of a stateful operator whose folders are gone."""

from __future__ import annotations

from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.state_files import StoreId

_PARTITIONS = "spark.sql.shuffle.partitions"
# Each partition is a task in each batch: a query with more of them would never end one.
_MOST = 100_000
_DIGITS = 10


def partition_count(facts: CheckpointFacts, operator: StatefulOperator) -> int:
    """How many partitions an operator has: what the offset log records (an offline repartition
    changes it there), else as many as there are."""
    recorded = facts.conf.get(_PARTITIONS, "")
    told = int(recorded[:_DIGITS]) if recorded.isdecimal() else operator.partitions[-1] + 1
    return min(told, _MOST)


def missing_stores(facts: CheckpointFacts, operator: StatefulOperator) -> tuple[StoreId, ...]:
    """The partitions' stores that have no folder. An operator without keys has only partition 0,
    whatever the recorded number of partitions."""
    there = {(store.id.partition, store.id.store) for store in operator.stores}
    alone = operator.partitions == (0,) and not _has_keys(operator)
    if facts.version_needed == 0 or not there or alone:
        return ()
    return tuple(
        StoreId(operator.id, partition, store)
        for partition in range(partition_count(facts, operator))
        for store in operator.store_names
        if (partition, store) not in there
    )


def _has_keys(operator: StatefulOperator) -> bool:
    """Do the schemas say that rows have keys? A limit's key is of the type void."""
    keys = {column for schema in operator.schemas.values() for column in schema.key}
    return bool(keys - {"key: void"})
