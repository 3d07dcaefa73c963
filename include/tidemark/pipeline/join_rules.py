"""What a join says together with this pipeline's columns and with the other pipeline's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from tidemark.pipeline import names
from tidemark.pipeline.expressions.names import KnownName, Scope, known_name, listed, spark_type
from tidemark.pipeline.expressions.sql import check_derived
from tidemark.pipeline.model import JoinTable, Pipeline, table_kind
from tidemark.pipeline.problems import Problem, nearest
from tidemark.pipeline.sections import Section, section
from tidemark.pipeline.yaml_file import Document, KeyPath

# The column of gold that counts matches.
MATCHES = "matches"
# Types whose equality is the same in Spark and in DuckDB, by which Spark's answer is checked.
_COMPARED_ALIKE = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "TEXT", "VARCHAR",
                   "DATE", "TIMESTAMPTZ", "TIMESTAMP", "BINARY")  # fmt: skip


class NoPartner(Exception):
    """Why there is no other pipeline to join; `names` are those that there are."""

    def __init__(self, message: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.known = known


# The other pipeline of a join by its name; raises NoPartner.
FindPartner = Callable[[str], Pipeline]


def joins_of(usable: Section) -> dict[str, str]:
    """The names of the other pipelines, by the tables that join with them."""
    tables = section(usable, "tables")
    found = {name: section(table, "join").get("with") for name, table in tables.items()}
    return {name: other for name, other in found.items() if isinstance(other, str)}


def scope_of(pipeline: Pipeline) -> dict[str, KnownName]:
    """The names of another pipeline's columns, then of its derived ones, with their types."""
    places = pipeline.source.place_types
    scope = {names.folded(name): KnownName(name, spark_type(kind)) for name, kind in places.items()}
    for name, column in pipeline.source.columns.items():
        scope[names.folded(name)] = KnownName(name, spark_type(column.type))
    for name, expression in pipeline.source.derive.items():
        _, found = check_derived(expression, scope)
        scope[names.folded(name)] = KnownName(name, found, derived=True)
    return scope


def joined_scope(scope: Scope, other: str, theirs: Scope) -> Scope:
    """The names that measures over joined rows can use: the other pipeline's columns are the fields
    of a struct that has its name."""
    fields = [
        exp.ColumnDef(
            this=exp.to_identifier(known.name), kind=known.type or exp.DataType.build("unknown")
        )
        for known in theirs.values()
    ]
    struct = exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True)
    return {**scope, names.folded(other): KnownName(other, struct)}


def find_broken_joins(
    document: Document,
    name: str,
    usable: Section,
    scope: Scope,
    partners: dict[str, Pipeline | NoPartner],
) -> Iterator[Problem]:
    """The problems of all joins, but for those of their tables' keys and measures."""
    for table_name, table in section(usable, "tables").items():
        written = section(section(document.content, "tables"), table_name)
        if isinstance(table, dict) and table_kind(written) is JoinTable:
            path: KeyPath = ("tables", table_name)
            yield from _join(document, path, name, table, scope, partners)


def _join(
    document: Document,
    path: KeyPath,
    name: str,
    table: Section,
    scope: Scope,
    partners: dict[str, Pipeline | NoPartner],
) -> Iterator[Problem]:
    join = section(table, "join")
    other = join.get("with")
    if not isinstance(other, str):
        return
    place = (*path, "join", "with")
    if other == name:
        message = "is this pipeline itself; a join needs another one"
        yield document.problem(place, message, value=other)
        return
    partner = partners.get(other)
    if not isinstance(partner, Pipeline):
        known = partner.known if partner else ()
        message = partner.message if partner else "is no pipeline that is known here"
        near = nearest(other, known)
        yield document.problem(place, message, value=other, nearest=near)
        return
    if partner.keep is not None and "keep" not in document.content:
        message = (
            "has `keep`, and this pipeline has none: its windows could be computed again from any "
            f"row, so that none of {other} would ever go; give this pipeline `keep` too"
        )
        yield document.problem(place, message, value=other)
    keys = {names.folded(key) for key in table.get("group_by") or () if isinstance(key, str)}
    taken = keys | set(scope)
    if names.folded(other) in taken:
        message = (
            "has the name of a column of this pipeline: nobody could tell "
            f"`{other}.…` of the other pipeline from it"
        )
        yield document.problem(place, message, value=other)
    yield from _on(document, (*path, "join", "on"), join.get("on"), scope, scope_of(partner), other)


def _on(
    document: Document, path: KeyPath, on: object, scope: Scope, theirs: Scope, other: str
) -> Iterator[Problem]:
    if isinstance(on, str):
        on = [on]
    pairs: list[tuple[KeyPath, str, str]] = []
    if isinstance(on, list):
        pairs = [((*path, place), key, key) for place, key in enumerate(on) if isinstance(key, str)]
    elif isinstance(on, dict):
        pairs = [((*path, left), left, right) for left, right in on.items()]
    for place, left, right in pairs:
        known = known_name(left, scope)
        if known is None:
            offered = [one.name for one in scope.values()]
            message = f"is neither a column nor a derived name; known: {listed(offered)}"
            near = nearest(left, offered)
            yield document.problem(place, message, value=left, nearest=near)
        matching = known_name(right, theirs)
        if matching is None:
            offered = [one.name for one in theirs.values()]
            message = (
                f"is neither a column nor a derived name of {other}; it has: {listed(offered)}"
            )
            near = nearest(right, offered)
            yield document.problem(place, message, value=right, nearest=near)
        if known and matching:
            yield from _types(document, place, known, matching, other)


def _types(
    document: Document, place: KeyPath, one: KnownName, two: KnownName, other: str
) -> Iterator[Problem]:
    for known, whose in ((one, "here"), (two, f"in {other}")):
        if known.type is None or (known.derived and not known.type.is_type("text", "boolean")):
            message = (
                f"`{known.name}` {whose} is derived, and its type cannot be told beforehand; join "
                "on columns of the source, or on derived text"
            )
            yield document.problem(place, message)
            return
        if known.type.this.name not in _COMPARED_ALIKE:
            message = (
                f"`{known.name}` {whose} is of type {known.type.sql('spark').lower()}, which is no "
                "key: rows are joined on whole and decimal numbers, text, dates, times and booleans"
            )
            yield document.problem(place, message)
            return
    if one.type != two.type and one.type is not None and two.type is not None:
        types = [known.sql("spark").lower() for known in (one.type, two.type)]
        message = (
            f"`{one.name}` is of type {types[0]} here and `{two.name}` of type {types[1]} in "
            f"{other}; `derive` one of them from the other, or declare the same type"
        )
        yield document.problem(place, message)


def unjoinable_columns(
    scope: Scope, other: str, theirs: Scope, read: tuple[tuple[str, ...], ...]
) -> Iterator[str]:
    """The columns of nested types that a measure reads: a clock row has none of them. The other
    pipeline's name by itself is such too: of all its columns, the query only takes those that
    are named."""
    for parts in read:
        if len(parts) == 1 and names.folded(parts[0]) == names.folded(other):
            yield other
            continue
        inner = len(parts) > 1 and names.folded(parts[0]) == names.folded(other)
        known = known_name(parts[1], theirs) if inner else known_name(parts[0], scope)
        if known and known.type is not None and known.type.is_type("array", "map", "struct"):
            yield known.name
