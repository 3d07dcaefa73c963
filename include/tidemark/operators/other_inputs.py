"""The inputs that an operator reads beside its own bronze: where they lie, at which versions."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import SourceNotFound, TableMismatch
from tidemark.operators.batches_read import OtherInput
from tidemark.operators.lookups import (
    LookupCopy,
    copy_of_number,
    input_of,
    is_lookup,
    newest_copy,
)
from tidemark.operators.operator import BRONZE, InputTable, Operator
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.commits import last_append
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse

# Of an input beside bronze: the version to read, and the condition that its rows have to fulfil.
ReadAt = Mapping[str, tuple[int, str]]


def other_pipeline(name: str) -> str:
    """The pipeline that an input beside bronze belongs to."""
    return name.removeprefix(f"{BRONZE}/")


def other_pipelines(operator: Operator) -> dict[str, str]:
    """The pipelines whose bronze an operator reads beside its own, as its inputs call them."""
    others = (name for name in operator.inputs if name != BRONZE and not is_lookup(name))
    return {other_pipeline(name): name for name in others}


def other_places(operator: Operator, warehouse: Warehouse) -> dict[str, TablePlace]:
    """The places of an operator's inputs beside its own bronze, by their names."""
    return {
        name: warehouse.bronze_of(pipeline) for pipeline, name in other_pipelines(operator).items()
    }


def check_others_are_there(operator: Operator, warehouse: Warehouse) -> None:
    """SourceNotFound where another pipeline has not made its bronze yet."""
    for name, place in other_places(operator, warehouse).items():
        if place.open() is None:
            other = other_pipeline(name)
            raise SourceNotFound(
                f"There is no {place.uri} to join with: the pipeline {other} has not run yet below "
                f"this root. Nothing was written. Run {other} first, then this one again."
            )


def reading(operator: Operator, warehouse: Warehouse, at: ReadAt | None = None) -> Operator:
    """The operator with its other inputs, each at its version, or as it is now."""
    if operator.lookups:
        operator = operator.with_copies(_copies(operator, warehouse, at))
    places = other_places(operator, warehouse)
    if not places:
        return operator
    others = {}
    for name, place in places.items():
        if at is None:
            others[name] = InputTable(place.existing(), place)
        else:
            version, condition = at[name]
            others[name] = InputTable(place.at_version(version), place, condition)
    return operator.with_inputs(others)


def _copies(operator: Operator, warehouse: Warehouse, at: ReadAt | None) -> dict[str, LookupCopy]:
    found = {}
    for name in operator.lookups:
        place = warehouse.lookup(name)
        copy = newest_copy(place) if at is None else copy_of_number(place, at[input_of(name)][0])
        if copy is None or not copy.is_of(operator.lookups[name].lookup):
            raise TableMismatch(
                f"The copy of the lookup {name} by which the table is computed is not below "
                f"{place.uri}: it was dropped or lost, or the table was taken back. Gold is as it "
                "was. Run the pipeline once: its run copies the lookup, and computes what rests on "
                "it again."
            )
        found[name] = copy
    return found


def lookup_numbers(operator: Operator, warehouse: Warehouse) -> dict[str, int]:
    """The numbers of the newest copies of its lookups, by the names of inputs; -1: none."""
    newest = {name: newest_copy(warehouse.lookup(name)) for name in operator.lookups}
    return {input_of(name): one.number if one else -1 for name, one in newest.items()}


def versions_read(
    operator: Operator, warehouse: Warehouse, checkpoint: Checkpoint
) -> dict[str, int]:
    """Up to which versions a query has read its other inputs, by its own offsets; -1: nothing.

    Their own pipelines go on writing, and a stream of Delta cannot be told where to end. No query
    reads lookups: of these it is what the run that holds the lease has copied.
    """
    places, lookups = other_places(operator, warehouse), lookup_numbers(operator, warehouse)
    last = checkpoint.last_batch("commits")
    if not places or last is None:
        return dict.fromkeys(places, -1) | lookups
    ends = checkpoint.delta_versions(last)
    ids = {name: str(place.existing().metadata().id) for name, place in places.items()}
    return {name: ends.get(one, 0) - 1 for name, one in ids.items()} | lookups


def read_at(operator: Operator, warehouse: Warehouse, checkpoint: Checkpoint) -> ReadAt:
    """The versions by which a query's rows are computed again: what it has read, and what has only
    moved rows since. Files of an older version may have been cleaned up."""
    places = other_places(operator, warehouse)
    read = versions_read(operator, warehouse, checkpoint)
    return {
        name: (version if is_lookup(name) else settled(places[name], version), "true")
        for name, version in read.items()
    }


def settled(place: TablePlace, version: int) -> int:
    """The newest version of a table that holds the rows of this one."""
    for after in range(version + 1, place.existing().version() + 1):
        if first_append(place, after, after) is not None:
            break
        version = after
    return max(version, 0)


def position(operator: Operator, warehouse: Warehouse, versions: Mapping[str, int]) -> int:
    """The newest versions with rows of all its inputs, at or below these, in sum: what grows with
    each input's rows, and with nothing else that is committed. Of a log that knows of none any
    more, the version itself: it is no less."""
    places = {BRONZE: warehouse.bronze, **other_places(operator, warehouse)}
    newest = {name: last_append(place.existing(), versions[name]) for name, place in places.items()}
    of_tables = (max(versions[name], 0) if last is None else last for name, last in newest.items())
    return sum(of_tables) + sum(max(versions[input_of(name)], 0) for name in operator.lookups)


def others_published(
    operator: Operator, warehouse: Warehouse, published: Mapping[str, int]
) -> tuple[OtherInput, ...]:
    """The other inputs, as batches are told by them; `published` are gold's versions."""
    return tuple(
        OtherInput(name, str(place.existing().metadata().id), published.get(name, -1))
        for name, place in other_places(operator, warehouse).items()
    )
