"""What the values of a pipeline file say together.

The rules work on the file's content without the values that are wrong by themselves, so that
one mistake hides no other: a column of a bad type is still a column, of unknown type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemark.pipeline import names
from tidemark.pipeline.check_rules import find_broken_checks
from tidemark.pipeline.column_types import parse_type
from tidemark.pipeline.expressions.names import (
    Fault,
    KnownName,
    Scope,
    known_name,
    listed,
    spark_type,
)
from tidemark.pipeline.expressions.regular_expressions import why_refused
from tidemark.pipeline.expressions.sql import (
    check_condition,
    check_derived,
    check_measures,
    check_where,
    in_full,
    keeps_no_bound,
    names_read,
)
from tidemark.pipeline.fold_rules import IN_USE, find_broken_folds
from tidemark.pipeline.join_rules import (
    MATCHES,
    NoPartner,
    find_broken_joins,
    joined_scope,
    scope_of,
    unjoinable_columns,
)
from tidemark.pipeline.lookup_rules import (
    find_broken_lookups,
    find_broken_uses,
    of_gold,
    usable_lookups,
    with_lookups,
)
from tidemark.pipeline.model import (
    LOCAL_DATE,
    CalendarTable,
    FoldTable,
    JoinTable,
    Pipeline,
    SessionTable,
    source_kind,
    table_kind,
)
from tidemark.pipeline.problems import Problem, nearest, why_not
from tidemark.pipeline.sections import Section, section
from tidemark.pipeline.settings.spark import as_text, check_pipeline_setting
from tidemark.pipeline.settings.state import PROVIDER, store_name
from tidemark.pipeline.settings.storage_options import SCHEMES
from tidemark.pipeline.source_files import check_place, is_uri, own_place
from tidemark.pipeline.time_rules import find_broken_times
from tidemark.pipeline.yaml_file import Document, KeyPath


def find_broken_rules(
    document: Document,
    name: str,
    usable: Section,
    partners: dict[str, Pipeline | NoPartner],
) -> list[Problem]:
    """All problems between the values of a file, in no order.

    `usable` is the document's content without the values that have a problem of their own,
    `partners` are the other pipelines of its joins.
    """
    source = section(usable, "source")
    problems = [*_files(document, name, source), *find_broken_times(document, usable)]
    problems += _topics(document, source)
    problems += _spark_settings(document, usable)
    if not section(section(document.content, "source"), "columns"):
        # That is told already; each name in the file would be told with it.
        return problems
    scope, wrong = _scope(document, source)
    problems += wrong
    problems += _event_time(document, source)
    problems += _unique(document, source, scope)
    problems += _row_rules(document, source, scope)
    problems += _state_store(document, usable)
    problems += find_broken_joins(document, name, usable, scope, partners)
    problems += find_broken_lookups(document, name, usable, scope)
    lookups = usable_lookups(usable)
    for table_name, table in section(usable, "tables").items():
        if isinstance(table, dict):
            path: KeyPath = ("tables", table_name)
            problems += find_broken_uses(document, path, table, scope, lookups)
            known = with_lookups(scope, lookups)
            problems += _table(document, path, table, known, partners)
    return problems


def _files(document: Document, name: str, source: Section) -> Iterator[Problem]:
    files = source.get("files")
    if isinstance(files, str) and (own := own_place(files, name)):
        message = f"lies in `{own}`, the platform's own folder; land files beside it"
        yield document.problem(("source", "files"), message, value=files)
    places: dict[KeyPath, Any] = {("source", "files"): files}
    places[("source", "delta", "table")] = section(source, "delta").get("table")
    for of, lookup in section(document.content, "lookup").items():
        for key in ("table", "file"):
            places[("lookup", of, key)] = section({of: lookup}, of).get(key)
    for path, place in places.items():
        if isinstance(place, str) and (why := _no_place(place)):
            yield document.problem(path, why, value=place)


def _topics(document: Document, source: Section) -> Iterator[Problem]:
    pattern = section(source, "kafka").get("pattern")
    if isinstance(pattern, str) and (why := why_refused(pattern)):
        yield document.problem(("source", "kafka", "pattern"), why, value=pattern)


def _no_place(place: str) -> str | None:
    if why := why_not(check_place, place):
        return why
    scheme = place.partition(":")[0].lower()
    if is_uri(place) and scheme not in SCHEMES:
        return f"has the scheme `{scheme}`; sources lie in the stores {', '.join(SCHEMES)}"
    return None


def _scope(document: Document, source: Section) -> tuple[dict[str, KnownName], list[Problem]]:
    """The names that keys and measures can use: columns, then derived ones in their order."""
    kinds = source_kind(document.content.get("source")).place_types
    scope = {names.folded(name): KnownName(name, spark_type(kind)) for name, kind in kinds.items()}
    problems: list[Problem] = []
    for name in section(section(document.content, "source"), "columns"):
        path = ("source", "columns", name)
        problems += _twice(document, path, name, scope, "column")
        text = _type_text(section(source, "columns").get(name))
        scope[names.folded(name)] = KnownName(name, spark_type(text) if text else None)
    for name in section(section(document.content, "source"), "derive"):
        path = ("source", "derive", name)
        problems += _twice(document, path, name, scope, "column or derived name")
        expression = section(source, "derive").get(name)
        if expression is None:
            # That is told already; each name that it is used by would be told with it.
            scope[names.folded(name)] = KnownName(name, None, derived=True)
            continue
        faults, found = check_derived(expression, scope)
        problems += [_fault(document, path, expression, fault) for fault in faults]
        scope[names.folded(name)] = KnownName(name, found, derived=True)
    return scope, problems


def _type_text(column: object) -> str | None:
    """The type of a column whose specification is good; None for others."""
    text = column.get("type") if isinstance(column, dict) else column
    return parse_type(text).type if isinstance(text, str) else None


def _twice(
    document: Document, path: KeyPath, name: str, scope: dict[str, KnownName], what: str
) -> Iterator[Problem]:
    if other := scope.get(names.folded(name)):
        message = f"has the name of the {what} `{other.name}`; Spark does not tell {_apart(name)}"
        yield document.problem(path, message, value=name, at_key=True)


def _apart(name: str) -> str:
    return "cases apart" if name.isascii() else "them apart, as it compares letters in upper case"


def _event_time(document: Document, source: Section) -> Iterator[Problem]:
    path: KeyPath = ("source", "event_time", "column")
    name = section(source, "event_time").get("column")
    if not isinstance(name, str):
        return
    all_names = list(section(section(document.content, "source"), "columns"))
    if name not in all_names:
        message = f"is not a column of the source; columns: {listed(all_names)}"
        near = nearest(name, all_names)
        yield document.problem(path, message, value=name, nearest=near)
        return
    text = _type_text(section(source, "columns").get(name))
    if text is not None and text != "timestamp":
        message = f"is a column of type {text}, and event time needs one of type timestamp"
        yield document.problem(path, message, value=name)


def _unique(document: Document, source: Section, scope: Scope) -> Iterator[Problem]:
    by = section(source, "unique").get("by")
    if isinstance(by, str):
        yield from _compared(document, ("source", "unique", "by"), by, scope)


def _row_rules(document: Document, source: Section, scope: Scope) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for number, rule in enumerate(source.get("rules") or ()):
        path, parts = ("source", "rules", number), rule if isinstance(rule, dict) else {}
        if isinstance(name := parts.get("name"), str):
            if other := taken.get(name.casefold()):
                message = f"is the name of another rule: `{other}`; counts of both would be one"
                yield document.problem((*path, "name"), message, value=name)
            taken[name.casefold()] = name
        for key in ("reject", "count"):
            if isinstance(sql := parts.get(key), str):
                for fault in check_condition(sql, scope):
                    yield _fault(document, (*path, key), sql, fault)


def _spark_settings(document: Document, usable: Section) -> Iterator[Problem]:
    for name, value in section(section(usable, "advanced"), "spark").items():
        if why := why_not(check_pipeline_setting, str(name), str(as_text(value))):
            yield document.problem(("advanced", "spark", name), why, at_key=True)


def _state_store(document: Document, usable: Section) -> Iterator[Problem]:
    advanced = section(usable, "advanced")
    if "store" in section(advanced, "state") and PROVIDER in section(advanced, "spark"):
        message = "is said twice: `advanced.state.store` has it too; leave one of them out"
        yield document.problem(("advanced", "spark", PROVIDER), message, at_key=True)
    folds = [name for name, table in section(usable, "tables").items()
             if table_kind(table) is FoldTable]  # fmt: skip
    if not folds:
        return
    kept = (
        f"cannot keep the state of the fold `{folds[0]}`: Spark has timers in RocksDB only. Leave "
        "it out: folds have RocksDB by themselves, and the other tables the store of their own"
    )
    if section(advanced, "state").get("store") == "memory":
        yield document.problem(("advanced", "state", "store"), kept, value="memory")
    provider = section(advanced, "spark").get(PROVIDER)
    if isinstance(provider, str) and store_name(provider) != "rocksdb":
        yield document.problem(("advanced", "spark", PROVIDER), kept, value=provider)


def _table(
    document: Document,
    path: KeyPath,
    table: Section,
    scope: Scope,
    partners: dict[str, Pipeline | NoPartner],
) -> Iterator[Problem]:
    yield from _output_mode(document, path, table)
    yield from _stream(document, path, table)
    yield from _kept_names(document, path, table)
    keys = [key for key in table.get("group_by") or () if isinstance(key, str)]
    for number, key in enumerate(keys):
        yield from _key(document, (*path, "group_by", number), key, keys[:number], scope)
    table, scope = of_gold(table, scope)
    keys = [key for key in table["group_by"] if isinstance(key, str)]
    where = table.get("where")
    if isinstance(where, str):
        yield from (
            _fault(document, (*path, "where"), where, one) for one in check_where(where, scope)
        )
    other = section(table, "join").get("with")
    partner = partners.get(other) if isinstance(other, str) else None
    measured = scope
    if "join" in section(section(document.content, "tables"), str(path[-1])):
        if not isinstance(other, str) or not isinstance(partner, Pipeline):
            # What its measures may name is not known.
            return
        measured = joined_scope(scope, other, scope_of(partner))
    problems = list(_measures(document, (*path, "measures"), table, keys, measured))
    yield from problems
    if not problems:
        table = {**table, "measures": in_full(section(table, "measures"))}
    if isinstance(partner, Pipeline):
        theirs = scope_of(partner)
        yield from _nested(document, (*path, "measures"), table, scope, str(other), theirs)
    yield from find_broken_folds(document, path, table, keys, scope)
    for number, name in enumerate(section(table, "fold").get("order_by") or ()):
        if isinstance(name, str):
            yield from _compared(document, (*path, "fold", "order_by", number), name, scope)
    yield from find_broken_checks(document, path, table, measured)


def _output_mode(document: Document, path: KeyPath, table: Section) -> Iterator[Problem]:
    written = section(section(document.content, "tables"), str(path[-1]))
    wrong = written.keys() - table.keys()
    if wrong & {"output_mode", "accept_unbounded_state"}:
        return
    complete = table.get("output_mode") == "complete"
    accepted = table.get("accept_unbounded_state") is True
    if complete and not accepted:
        what, other = "window", "update or append"
        if table_kind(written) is SessionTable:
            what, other = "session", "append"
        message = (
            f"keeps every {what} in its state, which grows for ever; say "
            f"`accept_unbounded_state: true` beside it, or choose {other}"
        )
        yield document.problem((*path, "output_mode"), message, value="complete")
    if accepted and not complete:
        message = "has no effect: only `output_mode: complete` has a state without bounds"
        yield document.problem((*path, "accept_unbounded_state"), message, value="true")


def _stream(document: Document, path: KeyPath, table: Section) -> Iterator[Problem]:
    """All windows would have to be computed anew in each run, as nothing remembers them."""
    if table.get("stream") == "recompute" and table.get("output_mode") == "complete":
        message = (
            "is not possible in `output_mode: complete`: that emits all rows each time, and "
            "without the engine's state only what new rows touch, or what closes, is computed; "
            "choose another mode, or leave `stream` out"
        )
        yield document.problem((*path, "stream"), message, value="recompute")
        return
    measures = section(table, "measures").items()
    kept = [name for name, sql in measures if isinstance(sql, str) and keeps_no_bound(sql)]
    for key, value, way in (
        ("stream", "engine", "leave it out"),
        ("output_mode", "complete", "choose another mode"),
    ):
        if kept and table.get(key) == value:
            message = (
                f"cannot be: `{kept[0]}` keeps all values of a window, so that the state of a "
                f"query would have no bound, and each run computes the table from bronze; {way}"
            )
            yield document.problem((*path, key), message, value=value)


def _kept_names(document: Document, path: KeyPath, table: Section) -> Iterator[Problem]:
    """Keys and measures by a name that tables of a kind have for a column of their own."""
    kept = {}
    if table_kind(table) is CalendarTable:
        why = "is kept in a table of a zone's calendar for the first day of its windows"
        kept[LOCAL_DATE] = why
    if table_kind(section(section(document.content, "tables"), str(path[-1]))) is JoinTable:
        kept[MATCHES] = "is kept in a table that joins for the number of matches"
    for number, key in enumerate(table.get("group_by") or ()):
        if isinstance(key, str) and (message := kept.get(names.folded(key))):
            yield document.problem((*path, "group_by", number), message, value=key)
    for measure in section(table, "measures"):
        if message := kept.get(names.folded(measure)):
            place = (*path, "measures", measure)
            yield document.problem(place, message, value=measure, at_key=True)


def _key(
    document: Document, path: KeyPath, key: str, before: list[str], scope: Scope
) -> Iterator[Problem]:
    if names.folded(key) in names.COLUMNS_IN_USE:
        yield document.problem(path, IN_USE, value=key)
        return
    if names.folded(key) in map(names.folded, before):
        yield document.problem(path, "stands twice among the keys", value=key)
    yield from _compared(document, path, key, scope)


def _compared(document: Document, path: KeyPath, name: str, scope: Scope) -> Iterator[Problem]:
    """A name whose values are asked for equality, whatever its case."""
    known = known_name(name, scope)
    if known is None:
        offered = [other.name for other in scope.values()]
        message = f"is neither a column nor a derived name; known: {listed(offered)}"
        yield document.problem(path, message, value=name, nearest=nearest(name, offered))
    elif _has_map(known):
        message = "is a map, or holds one; Spark cannot group by maps, nor compare them"
        yield document.problem(path, message, value=name)


def _has_map(known: KnownName) -> bool:
    parts = known.type.find_all(type(known.type)) if known.type else ()
    return any(part.is_type("map") for part in parts)


def _measures(
    document: Document, path: KeyPath, table: Section, keys: list[str], scope: Scope
) -> Iterator[Problem]:
    taken = {names.folded(key): f"the key `{key}`" for key in keys}
    written = section(section(section(document.content, "tables"), str(path[-2])), "measures")
    good = section(table, "measures")
    faults = check_measures({str(name): good.get(name, "") for name in written}, scope)
    for name, expression in good.items():
        if names.folded(name) in names.COLUMNS_IN_USE:
            yield document.problem((*path, name), IN_USE, value=name, at_key=True)
        if other := taken.get(names.folded(name)):
            message = f"has the same name as {other}"
            yield document.problem((*path, name), message, value=name, at_key=True)
        taken[names.folded(name)] = f"the measure `{name}`"
        for fault in faults[name]:
            yield _fault(document, (*path, name), expression, fault)


def _nested(
    document: Document, path: KeyPath, table: Section, scope: Scope, other: str, theirs: Scope
) -> Iterator[Problem]:
    for name, expression in section(table, "measures").items():
        read = names_read(expression) if isinstance(expression, str) else ()
        for column in unjoinable_columns(scope, other, theirs, read):
            message = (
                f"reads `{column}`, an array, a map or a struct; a join takes plain columns only: "
                f"`{other}.…`, or what is `derive`d from it"
            )
            yield document.problem((*path, name), message, value=expression)


def _fault(document: Document, path: KeyPath, expression: str, fault: Fault) -> Problem:
    return document.problem(
        path, fault.message, value=expression, nearest=fault.nearest, offset=fault.offset
    )
