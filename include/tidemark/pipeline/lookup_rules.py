"""What lookups say together with the source and the tables that name their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from sqlglot import exp

from tidemark.pipeline import names
from tidemark.pipeline.column_types import parse_type, same_type
from tidemark.pipeline.expressions.names import KnownName, Scope, known_name, listed, spark_type
from tidemark.pipeline.expressions.sql import names_read
from tidemark.pipeline.model import CalendarTable, Lookup, WindowTable, lookups_named, table_kind
from tidemark.pipeline.problems import Problem, nearest
from tidemark.pipeline.sections import Section, section
from tidemark.pipeline.source_files import own_place
from tidemark.pipeline.yaml_file import Document, KeyPath

_KEYS = ("byte", "short", "int", "long", "decimal", "string", "boolean", "date", "timestamp")


def usable_lookups(usable: Section) -> dict[str, Lookup]:
    """Those whose own values are good."""
    found = {}
    for name, said in section(usable, "lookup").items():
        try:
            found[name] = Lookup.model_validate(said)
        except ValidationError:
            # Told already, or without a value that is.
            continue
    return found


def find_broken_lookups(
    document: Document, name: str, usable: Section, scope: Scope
) -> Iterator[Problem]:
    """The problems of lookups beside the source; `scope` are the source's names."""
    written = section(document.content, "tables")
    tables = {table: one for table, one in section(usable, "tables").items() if table in written}
    lookups = usable_lookups(usable)
    named = {one for table in tables.values() for one in _named_by(table, lookups)}
    for lookup_name, lookup in lookups.items():
        path: KeyPath = ("lookup", lookup_name)
        if known := known_name(lookup_name, scope):
            message = (
                f"has the name of `{known.name}` of the source: nobody could tell "
                f"`{lookup_name}.…` of the lookup from it"
            )
            yield document.problem(path, message, value=lookup_name, at_key=True)
        if own := own_place(lookup.place, name):
            place = (*path, "table" if lookup.file is None else "file")
            yield document.problem(
                place, f"lies in `{own}`, the platform's own folder", value=lookup.place
            )
        yield from _on(document, path, lookup, usable, scope)
        if lookup_name not in named:
            message = "is not used: no table names a column of it in where, group_by or measures"
            yield document.problem(path, message, value=lookup_name, at_key=True)


def _on(
    document: Document, path: KeyPath, lookup: Lookup, usable: Section, scope: Scope
) -> Iterator[Problem]:
    said = section(section(usable, "source"), "columns")
    for ours, theirs in lookup.on.items():
        place = (*path, "on")
        column = said.get(ours)
        text = column.get("type") if isinstance(column, dict) else column
        if not isinstance(text, str):
            if ours in section(section(document.content, "source"), "columns"):
                # Its type is told as wrong.
                continue
            message = (
                f"`{ours}` is no column of the source; a lookup's keys are columns as they come"
            )
            near = nearest(ours, [str(one) for one in said])
            yield document.problem(place, message, value=ours, nearest=near)
            continue
        kind = parse_type(text).type
        if not any(same_type(kind.partition("(")[0], one) for one in _KEYS):
            message = (
                f"`{ours}` is of type {kind}, which is no key: rows are looked up by whole and "
                "decimal numbers, text, dates, times and booleans"
            )
            yield document.problem(place, message, value=ours)
        own = lookup.column(theirs)
        if own is not None and not same_type(lookup.columns[own], kind):
            message = (
                f"`{theirs}` is {lookup.columns[own]} in the lookup, and `{ours}` of the source is "
                f"{kind}: they have to be of one type"
            )
            yield document.problem((*path, "columns", own), message, value=lookup.columns[own])


def with_lookups(scope: Scope, lookups: Mapping[str, Lookup]) -> dict[str, KnownName]:
    """The source's names, and those of lookups: each as a struct, and its columns as `where` and
    `group_by` name them."""
    found = dict(scope)
    for name, lookup in lookups.items():
        if known_name(name, scope):
            # Told already.
            continue
        kinds = {column: spark_type(text) for column, text in lookup.columns.items()}
        fields = [
            exp.ColumnDef(this=exp.to_identifier(column), kind=kind)
            for column, kind in kinds.items()
        ]
        struct = exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True)
        found[names.folded(name)] = KnownName(name, struct)
        for column, kind in kinds.items():
            whole = f"{name}.{column}"
            found[names.folded(whole)] = KnownName(whole, kind)
    return found


def of_gold(table: Section, scope: Scope) -> tuple[Section, Scope]:
    """A table whose keys are called as in gold, with the names of that: `airlines_name`."""
    keys, found = [], dict(scope)
    for key in table.get("group_by") or ():
        if isinstance(key, str) and "." in key and (known := known_name(key, scope)):
            key = key.replace(".", "_")
            found[names.folded(key)] = KnownName(key, known.type)
        keys.append(key)
    return {**table, "group_by": keys}, found


def find_broken_uses(
    document: Document,
    path: KeyPath,
    table: Section,
    source: Scope,
    lookups: Mapping[str, Lookup],
) -> Iterator[Problem]:
    """The problems of a table that names columns of lookups."""
    used = list(_named_by(table, lookups))
    yield from _whole(document, path, table, lookups, source)
    yield from _columns_of_gold(document, path, table, source)
    if not used:
        return
    written = section(section(document.content, "tables"), str(path[-1]))
    what = f"names columns of the lookup `{used[0]}`, which"
    if table_kind(written) not in (WindowTable, CalendarTable):
        message = (
            f"{what} tables over sessions, joins and folds cannot: which rows of theirs a changed "
            "lookup touches is not told; choose windows of a fixed length, or of a calendar"
        )
        yield document.problem(path, message, value=str(path[-1]), at_key=True)
    if table.get("output_mode") == "complete":
        message = (
            f"{what} is not possible in `output_mode: complete`: what a changed lookup touches is "
            "computed from bronze; choose update or append"
        )
        yield document.problem((*path, "output_mode"), message, value="complete")
    if table.get("stream") == "engine":
        message = (
            f"{what} is not possible with `stream: engine`: a query that has read a row never "
            "learns that the lookup says something else now; leave `stream` out"
        )
        yield document.problem((*path, "stream"), message, value="engine")


def _named_by(table: object, lookups: Mapping[str, Lookup]) -> dict[str, Lookup]:
    of = table if isinstance(table, dict) else {}
    keys = [key for key in of.get("group_by") or () if isinstance(key, str)]
    where = of.get("where") if isinstance(of.get("where"), str) else None
    measures = {name: one for name, one in section(of, "measures").items() if isinstance(one, str)}
    return lookups_named(lookups, keys, where, measures)


def _whole(
    document: Document,
    path: KeyPath,
    table: Section,
    lookups: Mapping[str, Lookup],
    source: Scope,
) -> Iterator[Problem]:
    """A lookup that is named without a column."""
    expressions: dict[KeyPath, Any] = {("where",): table.get("where")}
    expressions |= {("measures", name): one for name, one in section(table, "measures").items()}
    said = [(place, parts) for place, one in expressions.items() if isinstance(one, str)
            for parts in names_read(one)]  # fmt: skip
    keys = table.get("group_by") or ()
    said += [(("group_by", place), (key,)) for place, key in enumerate(keys)]
    for place, parts in said:
        for name, lookup in lookups.items():
            alone = len(parts) == 1 and isinstance(parts[0], str)
            if alone and names.same_column(parts[0], name) and not known_name(name, source):
                message = (
                    f"names the lookup `{name}` as a whole; name one of its columns: "
                    f"{listed([f'{name}.{column}' for column in lookup.columns])}"
                )
                yield document.problem((*path, *place), message, value=parts[0])


def _columns_of_gold(
    document: Document, path: KeyPath, table: Section, source: Scope
) -> Iterator[Problem]:
    taken = {*names.COLUMNS_IN_USE}
    taken |= {names.folded(key) for key in table.get("group_by") or ()
              if isinstance(key, str) and "." not in key}  # fmt: skip
    for number, key in enumerate(table.get("group_by") or ()):
        if not isinstance(key, str) or "." not in key:
            continue
        column = key.replace(".", "_")
        if names.folded(column) in taken or known_name(column, source):
            message = f"becomes the column `{column}` of gold, and that name is taken"
            yield document.problem((*path, "group_by", number), message, value=key)
        taken.add(names.folded(column))
