"""Changes of what the ingest reads, accepts and derives. Each verdict with its reason.

Most are safe: a row is judged once, by the contract of its batch, and bronze keeps what came of
it. A wider type needs bronze to be written again. What needs to be accepted loses rows of bronze,
or gives one of its columns a second meaning. What is not allowed would make bronze hold two sources
or two times, or want rows that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tidemark.pipeline.column_types import is_wider, same_type
from tidemark.pipeline.difference import FROM_NOW, ChangeVerdict, Difference
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.expressions.sql import same_expression
from tidemark.pipeline.model import (
    Column,
    CsvFormatOptions,
    FilesSource,
    Pipeline,
    Source,
    Unique,
)
from tidemark.pipeline.places import INGEST
from tidemark.runs.contract.contract import Contract
from tidemark.sources.kinds import source_changes

KEEP = "keep"
_TO_WIDEN = (
    "Bronze is written again with the wider type, its values as they are, by the first "
    "`tidemark migrate`; rows that were rejected stay rejects"
)


def ingest_changes(recorded: Contract, asked: Contract) -> Iterator[Difference]:
    """What differs for the ingest."""
    old, new = recorded.pipeline.source, asked.pipeline.source
    yield from source_changes(recorded.pipeline, asked.pipeline)
    yield from _records(old, new)
    yield from _event_time(old, new)
    yield from _columns(old, new)
    yield from _derived(old, new)
    if old.unique != new.unique:
        yield _safe("source.unique", _unique(old.unique), _unique(new.unique))
    if old.rules != new.rules:
        yield _safe("source.rules", _rules(old), _rules(new))
    if old.nulls != new.nulls:
        yield _safe("source.nulls", _text(old.nulls), _text(new.nulls))
    if old.unknown_fields != new.unknown_fields:
        yield _safe("source.unknown_fields", old.unknown_fields, new.unknown_fields)
    yield from _keep(recorded.pipeline, asked.pipeline)
    yield from _keep_rejects(recorded.pipeline.keep_rejects, asked.pipeline.keep_rejects)


def _records(old: Source, new: Source) -> Iterator[Difference]:
    if old.when != new.when:
        one, other = (source.when and source.when.label for source in (old, new))
        reason = (
            "Records that were another pipeline's by then are not read again, and rows of those "
            "that are now stay: windows that are open, and closed ones that late rows touch, mix "
            "both"
        )
        verdict = ChangeVerdict.TO_ACCEPT
        yield Difference(INGEST, "source.when", one or "none", other or "none", verdict, reason)
    if old.explode != new.explode:
        taken, now = (".".join(source.explode or ()) for source in (old, new))
        reason = "Bronze has a row for each of something else, which its columns do not tell apart"
        verdict = ChangeVerdict.NOT_ALLOWED
        yield Difference(INGEST, "source.explode", taken or "none", now or "none", verdict, reason)


def _event_time(old: Source, new: Source) -> Iterator[Difference]:
    before, after = old.event_time, new.event_time
    if before.column != after.column:
        reason = (
            "Bronze is laid out by the date of the event time, and windows, watermark and late "
            "rows follow from it: rows of before would be looked for under the wrong dates"
        )
        what, verdict = "source.event_time.column", ChangeVerdict.NOT_ALLOWED
        yield Difference(INGEST, what, before.column, after.column, verdict, reason)
    for name in ("format", "zone", "max_future", "max_jump", "accept_early_close"):
        one, other = (getattr(time, name) for time in (before, after))
        if one != other:
            yield _safe(f"source.event_time.{name}", _text(one), _text(other))


def _columns(old: Source, new: Source) -> Iterator[Difference]:
    for name in old.columns | new.columns:
        what, before, after = f"source.columns.{name}", old.columns.get(name), new.columns.get(name)
        if before is None:
            reason = "Rows of before have null there"
            yield Difference(INGEST, what, "none", _added(name, new), ChangeVerdict.SAFE, reason)
        elif after is None:
            reason = "Its column in bronze stays, and is null in rows from now on"
            yield Difference(INGEST, what, before.type, "none", ChangeVerdict.SAFE, reason)
        else:
            yield from _column(name, before, after, new.event_time.column)
            yield from _field(name, old, new)


def _added(name: str, new: Source) -> str:
    """A new column, with its field where that does not follow from its name: who accepts the column
    accepts that field."""
    column = new.columns[name]
    field = _place(name, new) if _has_no_header(new) else column.path(name)
    return column.type if field == (name,) else f"{column.type} of {'.'.join(field)}"


def _field(name: str, old: Source, new: Source) -> Iterator[Difference]:
    """Without a header a column's field is the one at its place among the columns."""
    before, after = (source.columns[name].path(name) for source in (old, new))
    if _has_no_header(old) and _has_no_header(new):
        before, after = (_place(name, source) for source in (old, new))
    if before != after:
        reason = (
            "Bronze keeps what was read from the other field before, beside what is read from "
            "now on: keys, measures and `where` over it mix both, in windows that are open and "
            "in closed ones that late rows touch"
        )
        what, verdict = f"source.columns.{name}.field", ChangeVerdict.TO_ACCEPT
        yield Difference(INGEST, what, ".".join(before), ".".join(after), verdict, reason)


def _place(name: str, source: Source) -> tuple[str, ...]:
    return (f"number {list(source.columns).index(name) + 1} of a record",)


def _has_no_header(source: Source) -> bool:
    written = source.format if isinstance(source, FilesSource) else None
    return isinstance(written, CsvFormatOptions) and not written.csv.header


def _column(name: str, before: Column, after: Column, event_time: str) -> Iterator[Difference]:
    what = f"source.columns.{name}"
    if not same_type(before.type, after.type):
        verdict, reason = ChangeVerdict.NEW_GENERATION, _TO_WIDEN
        if not is_wider(after.type, before.type) or name == event_time:
            verdict, reason = (
                ChangeVerdict.NOT_ALLOWED,
                "Bronze holds the column with the old type. Read the field under another "
                "column's name, or keep the type and `derive` a column from it",
            )
        yield Difference(INGEST, what, before.type, after.type, verdict, reason)
    if before.nullable != after.nullable:
        yield _safe(what, _null(before.nullable), _null(after.nullable))
    for part in ("nulls", "trim", "from_text"):
        if (one := getattr(before, part)) != (other := getattr(after, part)):
            yield _safe(f"{what}.{part}", _text(one), _text(other))


def _derived(old: Source, new: Source) -> Iterator[Difference]:
    for name in old.derive | new.derive:
        before, after = old.derive.get(name), new.derive.get(name)
        what = f"source.derive.{name}"
        if before is None and name not in old.columns:
            reason = "Rows of before have null there"
            yield Difference(INGEST, what, "none", str(after), ChangeVerdict.SAFE, reason)
        elif after is None and name not in new.columns:
            reason = "Its column in bronze stays, and is null in rows from now on"
            yield Difference(INGEST, what, str(before), "none", ChangeVerdict.SAFE, reason)
        elif before is None or after is None or not same_expression(before, after):
            reason = (
                "Bronze keeps what was derived before, beside what is derived from now on: keys, "
                "measures and `where` over it mix both meanings, in windows that are open and in "
                "closed ones that late rows touch"
            )
            verdict = ChangeVerdict.TO_ACCEPT
            yield Difference(INGEST, what, before or "none", after or "none", verdict, reason)


def _keep(old: Pipeline, new: Pipeline) -> Iterator[Difference]:
    before, after = _text(old.keep), _text(new.keep)
    if old.keep == new.keep:
        return
    if old.keep is None or (new.keep is not None and new.keep < old.keep):
        reason = (
            "The next publish drops the dates of bronze that are older, for good: their windows "
            "can never be computed again, nor can `keep` be taken back"
        )
        yield Difference(INGEST, KEEP, before, after, ChangeVerdict.TO_ACCEPT, reason)
    else:
        reason = (
            "Rows older than before were dropped from bronze: a late row in a window of theirs "
            "would replace its value by what is left of it"
        )
        yield Difference(INGEST, KEEP, before, after, ChangeVerdict.NOT_ALLOWED, reason)


def _keep_rejects(old: timedelta | None, new: timedelta | None) -> Iterator[Difference]:
    verdict, reason = ChangeVerdict.SAFE, "What maintenance has dropped does not come back"
    if new is not None and (old is None or new < old):
        verdict = ChangeVerdict.TO_ACCEPT
        reason = (
            "Maintenance drops the rejects that are older, for good: nobody can replay them any "
            "more, or look at what was wrong with them"
        )
    if old != new:
        yield Difference(INGEST, "keep_rejects", _text(old), _text(new), verdict, reason)


def _safe(what: str, before: str, after: str) -> Difference:
    return Difference(INGEST, what, before, after, ChangeVerdict.SAFE, FROM_NOW)


def _null(nullable: bool) -> str:
    return "may be null" if nullable else "not null"


def _unique(unique: Unique | None) -> str:
    return "none" if unique is None else f"by {unique.by} within {duration_text(unique.within)}"


def _rules(source: Source) -> str:
    return "; ".join(rule.label for rule in source.rules) or "none"


def _text(value: object) -> str:
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(repr, value)) or "none"
    return "none" if value is None else str(value)
