"""What is missing: numbers between others, as ranges, for a stray file may have any number; and
folders of stores of a stateful operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise

from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.log_formats import MOST_PARTITIONS
from tidemark.checkpoint.reading.state_files import DEFAULT_STORE, StoreId
from tidemark.checkpoint.reading.state_metadata import NEWEST_SCHEMA


def missing_ranges(present: Iterable[int], first: int, last: int) -> tuple[range, ...]:
    """The numbers from `first` to `last`, both included, that are not `present`."""
    there = sorted(number for number in set(present) if first <= number <= last)
    edges = [first - 1, *there, last + 1]
    found = (range(a + 1, b) for a, b in pairwise(edges))
    return tuple(one for one in found if one)


def numbers_of(ranges: Iterable[range], at_most: int) -> Iterator[int]:
    """The first numbers of some ranges."""
    return islice(chain.from_iterable(ranges), at_most)


def count_of(ranges: Iterable[range]) -> int:
    """How many numbers some ranges have."""
    # `len` takes no more than a long.
    return sum(max(0, one.stop - one.start) for one in ranges)


def partition_count(facts: CheckpointFacts, operator: StatefulOperator) -> int:
    """How many partitions an operator has: what the offset log records (an offline repartition
    changes it there), else as many as there are."""
    recorded = facts.partitions
    there = max(operator.partitions, default=0) + 1
    return min(there, MOST_PARTITIONS) if recorded is None else recorded


def missing_stores(facts: CheckpointFacts, operator: StatefulOperator) -> tuple[StoreId, ...]:
    """The partitions' stores that have no folder. An operator without keys has only partition 0,
    whatever the recorded number of partitions."""
    there = {(store.id.partition, store.id.store) for store in operator.stores}
    if facts.version_needed == 0 or (not there and _other_files(facts, operator)):
        return ()
    alone = operator.partitions in ((), (0,)) and not _has_keys(operator)
    return tuple(
        StoreId(operator.id, partition, store)
        for partition in range(1 if alone else partition_count(facts, operator))
        for store in _stores_of(operator)
        if (partition, store) not in there
    )


def missing_operators(facts: CheckpointFacts) -> tuple[range, ...]:
    """The operators that have no folder though a later one has: they are numbered from 0
    (IncrementalExecution.nextStatefulOperationStateInfo)."""
    there = [operator.id for operator in facts.operators]
    return missing_ranges(there, 0, max(there, default=-1)) if facts.version_needed else ()


def _stores_of(operator: StatefulOperator) -> tuple[str, ...]:
    """The names of an operator's stores: those that are there, and those that it says itself. Where
    it says none of those that are there, it names others than folders (column families)."""
    there, told = operator.store_names, operator.metadata.stores if operator.metadata else ()
    if there and not set(there) & set(told):
        return there
    return tuple(sorted({*there, *told} or {DEFAULT_STORE}))


def _other_files(facts: CheckpointFacts, operator: StatefulOperator) -> bool:
    """Has it files that are not known here? They may be its state."""
    return any(name.startswith(f"state/{operator.id}/") for name in facts.unknown)


def _has_keys(operator: StatefulOperator) -> bool:
    """Do the schemas say that rows have keys? A limit's key is of the type void. Those of arbitrary
    state (transformWithState) name no columns, and it always has keys."""
    if any(schema.version == NEWEST_SCHEMA for schema in operator.schemas.values()):
        return True
    keys = {column for schema in operator.schemas.values() for column in schema.key}
    return bool(keys - {"key: void"})
