"""Lookups: what tables that others keep say of bronze's rows, as DuckDB joins it to them.

A pipeline reads a copy of its own (`runs/lookups.py`), which changes at the beginning of a run
only. Its columns are `_on_0`, `_on_1` … of the keys, those of the pipeline's file, and of a lookup
with `as_of` from when on a row holds and up to when: `_from`, `_to` (null: for ever). Of the rows
of one key at most one holds at any time, so that a join with it multiplies no row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemark.pipeline.model import Lookup, Table, lookups_named

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable

    from tidemark.storage.delta.place import TablePlace

FROM, TO = "_from", "_to"
_INPUT = "lookup/"


@dataclass(frozen=True)
class LookupCopy:
    """A pipeline's copy of a lookup as it was of a number, which grows with each other content.
    `definition` is what of the pipeline's file made it."""

    place: TablePlace
    table: DeltaTable
    number: int
    source: str
    definition: str

    def is_of(self, lookup: Lookup) -> bool:
        """Was it made by the keys and times of a lookup, and has it all of its columns?"""
        told = json.loads(self.definition)
        same = (told["on"], told["as_of"]) == (lookup.on, list(lookup.as_of))
        return same and told["columns"].items() >= lookup.columns.items()

    def is_readable(self) -> bool:
        """Are its files there? Its log alone does not tell."""
        from tidemark.storage.delta.dataset import data_files
        from tidemark.storage.files import stat_files

        return all(stat_files(data_files(self.place, self.table), self.place.options).values())


def copies_of(place: TablePlace) -> Iterator[LookupCopy]:
    """The copies of a lookup that its log knows, the newest first; each as it was when its number
    was noted last."""
    from tidemark.storage.delta.notes import LookupNote, note_of
    from tidemark.storage.delta.opened import newest_first

    table = place.open()
    told: set[int] = set()
    if table is None:
        return
    for commit in newest_first(table):
        note = note_of(commit)
        if isinstance(note, LookupNote) and note.number not in told:
            told.add(note.number)
            known = place.at_version(commit["version"])
            yield LookupCopy(place, known, note.number, note.source, note.definition)


def newest_copy(place: TablePlace) -> LookupCopy | None:
    """The newest copy of a lookup, by its log; None where that has none."""
    return next(copies_of(place), None)


def copy_of_number(place: TablePlace, number: int) -> LookupCopy | None:
    """The copy of a number; None where nobody has it any more: its files may be dropped."""
    found = next((one for one in copies_of(place) if one.number <= number), None)
    return found if found is not None and found.number == number and found.is_readable() else None


@dataclass(frozen=True)
class LookedUp:
    """A lookup of a table, with the columns that the table names; `keys` are those of gold, by
    their names there."""

    lookup: Lookup
    keys: Mapping[str, str]
    copy: LookupCopy | None = None

    def key_column(self, place: int) -> str:
        """What the copy calls one of its keys."""
        return f"_on_{place}"

    @property
    def columns(self) -> list[str]:
        """What is read of the copy."""
        keys = [self.key_column(place) for place in range(len(self.lookup.on))]
        return [*keys, *self.lookup.columns, *([FROM, TO] if self.lookup.as_of else [])]

    @property
    def copied(self) -> LookupCopy:
        """The copy. Who computes rows has it (`operators/other_inputs.py`)."""
        assert self.copy is not None, "an operator is asked without the copies of its lookups"
        return self.copy

    def same_keys(self, row: str, copied: str, event_time: str, columns: Mapping[str, str]) -> str:
        """DuckDB's condition that a row of bronze finds one of the copy, whose `_to` is never null;
        `columns` are bronze's by the names of the file."""
        same = [
            f'{row}."{columns[ours]}" = {copied}.{self.key_column(place)}'
            if ours in columns
            else "false"
            for place, ours in enumerate(self.lookup.on)
        ]
        if self.lookup.as_of:
            same += [f'{row}."{event_time}" >= {copied}.{FROM}']
            same += [f'{row}."{event_time}" < {copied}.{TO}']
        return " AND ".join(same)


Lookups = Mapping[str, LookedUp]
NO_LOOKUPS: Lookups = {}


def names_taken(lookups: Lookups) -> list[str]:
    """What lookups add to bronze's columns, each as a struct or a key: one of bronze by such a name
    was derived by a former file."""
    return [*lookups, *(key for one in lookups.values() for key in one.keys)]


def lookups_of(lookups: Mapping[str, Lookup], table: Table) -> Lookups:
    """Those of a table, without their copies."""
    found = lookups_named(lookups, table.group_by, table.where, table.measures)
    dotted = {
        gold: key.split(".")
        for gold, key in zip(table.keys, table.group_by, strict=True)
        if "." in key
    }
    return {
        name: LookedUp(
            lookup,
            {
                gold: column
                for gold, (of, said) in dotted.items()
                if of.lower() == name and (column := lookup.column(said))
            },
        )
        for name, lookup in found.items()
    }


def input_of(lookup: str) -> str:
    """What pins and gold's transactions call a lookup as an input of a table."""
    return f"{_INPUT}{lookup}"


def is_lookup(name: str) -> bool:
    """Is an input of this name a lookup?"""
    return name.startswith(_INPUT)


def register_copy(
    connection: duckdb.DuckDBPyConnection, name: str, one: LookedUp, rows: pa.Table | None = None
) -> None:
    """Register the copy of a lookup as this relation, or these rows of it: its keys, the columns
    that are named, and `_found`; from when to when, where that is told."""
    from tidemark.storage.delta.dataset import dataset_of

    connection.register(f"{name}_read", dataset_of(one.copied.table) if rows is None else rows)
    columns = [f'"{column}"' for column in one.columns if column != TO]
    if one.lookup.as_of:
        columns.append(f"coalesce({TO}, TIMESTAMPTZ 'infinity') AS {TO}")
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {name} AS "
        f"SELECT {', '.join(columns)}, true AS _found FROM {name}_read"
    )


def columns_by_name(schema: pa.Schema, asked: Iterable[str]) -> dict[str, str]:
    """Bronze's columns by the names that the file gives them; a column that it gets with the next
    run only is not among them."""
    from tidemark.pipeline.names import same_column

    return {one: known.name for one in asked for known in schema if same_column(known.name, one)}
