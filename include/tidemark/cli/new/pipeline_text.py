"""A proposal as the text of a pipeline file, with a short reason beside each choice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from textwrap import wrap
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemark.cli.new.columns import SampleColumn
from tidemark.cli.new.judged import SampleVerdict
from tidemark.cli.new.proposal import Proposal, free_name
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.kafka_columns import TIME
from tidemark.pipeline.names import COLUMNS_IN_USE, folded

# Names, types, paths and calls that YAML needs no quotes for.
_PLAIN = re.compile(r"[A-Za-z_][\w./*-]*(\([\w,*]+\))?( not null)?", re.ASCII)
# Words that YAML, of one version or another, reads as something else.
_NOT_TEXT = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
_MOST_LEFT_OUT = 20
_MOST_NO_IDS = 3
# In words apart by `_`: numbers of which one is as much as all of them.
_LEVEL = re.compile(
    r"(^|_)(price|rate|ratio|share|percent|percentage|pct|score|rating|avg|average|mean|median|"
    r"min|max|temp|temperature|humidity|pressure|degrees|celsius|speed|age|height|weight|length|"
    r"width|depth|level|balance|voltage|mass|wind|gust|humid|dew|dewp|visib|visibility|open|high|low|"
    r"close|per|lbs|kg|mm|cm|satz|mittel|mittelwert|durchschnitt|feuchte|grad|alter|höhe|hoehe|"
    r"länge|laenge|breite|tiefe|spannung)(_|$)|"
    # Ends of words too: unitprice, Einzelpreis, Lufttemperatur; but Umsatz.
    r"(price|preis|kurs|anteil|prozent|steuersatz|zinssatz|temperatur|gewicht|geschwindigkeit|"
    r"feuchtigkeit|druck)(_|$)"
)
_NOTE, _WIDTH = "  # ", 98


def pipeline_text(
    proposal: Proposal, source: Mapping[str, Any], reasons: Sequence[str] = ()
) -> str:
    """The file's text, but for its heading. `source` are its entries for where rows come from, and
    `reasons` comments on them."""
    return "".join(f"{line}\n" for line in _lines(proposal, source, reasons))


def heading(origin: str, verdict: SampleVerdict | None) -> str:
    """What stands above it: what was sampled, and what becomes of that; None: it has no event time
    yet."""
    lines = [
        f"# Proposed by `tidemark new` from {origin}.",
        f"# A run {verdict.label}." if verdict else "# It has no event time yet: name one below.",
        "# Read it, and correct it.",
    ]
    return "".join(f"{line}\n" for line in lines)


def _lines(proposal: Proposal, source: Mapping[str, Any], reasons: Sequence[str]) -> Iterator[str]:
    yield 'schedule: "@hourly"'
    yield "source:"
    for reason in reasons:
        yield from wrap(
            " ".join(reason.split()), _WIDTH, initial_indent=_NOTE, subsequent_indent=_NOTE
        )
    for key, entry in source.items():
        yield f"  {key}: {_flow(entry)}"
    if proposal.is_typed:
        yield "  # Types, and what is not null, as the schema has them."
    else:
        yield "  # not null: each row of the sample holds a value; a row that lacks it is rejected."
    yield "  columns:"
    for column in proposal.columns:
        yield f"    {_scalar(column.name)}: {_entry(column, proposal)}{_note(column, proposal)}"
    yield from _arrays(proposal)
    yield from _left_out(proposal)
    yield from _event_time(proposal)
    yield from _unique(proposal)
    derived = _derived(proposal)
    if derived:
        yield "  # Gold has columns of these names itself, so the keys have others."
        pairs = [f"{_scalar(new)}: {_scalar(_sql_name(old))}" for old, new in derived.items()]
        yield f"  derive: {{{', '.join(pairs)}}}"
    yield from _watermark(proposal)
    yield from _table(proposal, [derived.get(key.name, key.name) for key in proposal.keys])


def _type(column: SampleColumn, proposal: Proposal) -> str:
    if column is proposal.event_time:
        return "timestamp not null"
    return f"{column.type} not null" if column.is_required else column.type


def _entry(column: SampleColumn, proposal: Proposal) -> str:
    entries: dict[str, Any] = {}
    if column.field:
        entries["field"] = [column.field] if "." in column.field else column.field
    entries["type"] = _type(column, proposal)
    if column is not proposal.event_time:
        entries |= {"nulls": list(column.nulls)} if column.nulls else {}
        entries |= {"from_text": True} if column.from_text else {}
    return _flow(entries) if len(entries) > 1 else _scalar(entries["type"])


def _note(column: SampleColumn, proposal: Proposal) -> str:
    if column.known is not None and column.known.note:
        return f"   # {column.known.note}"
    if column.known is None and proposal.is_typed:
        return "   # by its values: the schemas have several types"
    if column.rounded and column is not proposal.event_time:
        rows = _rows(column.rounded)
        return f"   # rounds the whole number of {rows}: ids? decimal(p,s) is exact"
    return ""


def _arrays(proposal: Proposal) -> Iterator[str]:
    for column in proposal.columns:
        if column.type.startswith("array<struct"):
            path = json.dumps([column.source_name], ensure_ascii=False)
            field = column.source_name if "." not in column.source_name else path
            yield f"  # `explode: {field}` makes a row of each of its elements (docs/judging.md)."


def _left_out(proposal: Proposal) -> Iterator[str]:
    if not proposal.left_out:
        return
    yield "  # No columns; a row keeps them as JSON in _extra:"
    for one in proposal.left_out[:_MOST_LEFT_OUT]:
        yield f"  #   {json.dumps(one.name)}: {' '.join(one.why.split())}"
    if len(proposal.left_out) > _MOST_LEFT_OUT:
        yield f"  #   and {len(proposal.left_out) - _MOST_LEFT_OUT:,} more"


def _event_time(proposal: Proposal) -> Iterator[str]:
    written, column = proposal.time_format, proposal.event_time
    if written is None or column is None:
        yield from wrap(proposal.no_time, _WIDTH, initial_indent=_NOTE, subsequent_indent=_NOTE)
        yield "  # Name the column, of type timestamp, and its `format` where it has another one."
        yield "  event_time: {column: }"
        return
    if column.name == TIME:
        yield "  # Kafka's time of the message: when it was produced, or, where the topic says so"
        yield "  # (message.timestamp.type), when it was appended."
    if written.unlikely:
        yield f"  # In {_rows(written.unlikely)} the number is no time from 2000 to 2100: is it of"
        yield "  # another unit? A run takes it by this one."
    if written.zone and written.without_zone < written.fitting:
        yield f"  # The text tells no zone in {_rows(written.without_zone)}: is it UTC?"
    elif written.zone:
        yield "  # The text tells no zone: is it UTC?"
    elif written.without_zone:
        yield f"  # In {written.without_zone:,} of these the text tells no zone; `zone` says which."
    if written.other:
        yield f"  # Or {written.other}? The sample's days can be read in both ways."
    entries = [f"column: {_scalar(column.name)}"]
    if written.format != "iso8601":
        entries.append(f"format: {_scalar(written.format)}")
    if written.zone:
        entries.append(f"zone: {written.zone}")
    yield f"  event_time: {{{', '.join(entries)}}}"


def _unique(proposal: Proposal) -> Iterator[str]:
    if proposal.unique is None:
        yield "  # No column is an id, so rows that come twice count twice: see `unique`."
        for one in proposal.no_ids[:_MOST_NO_IDS]:
            why = f"{_rows(one.lacking)} lack it, {_rows(one.shared)} have that of a different one"
            yield f"  #   {json.dumps(one.column.name)}: {why}"
        return
    found = proposal.unique
    if not found.tells_rows_apart:
        why = f"{_rows(found.lacking)} lack it, {_rows(found.shared)} have that of a different one"
        yield f"  # As it was asked for; in the sample {why}."
    elif found.shared:
        yield "  # Named like an id, and hardly any two different rows share one:"
        yield f"  # In {_rows(found.shared)} it is that of a different one."
    else:
        yield "  # Named like an id, and no two different rows share one."
    if found.lacking:
        yield f"  # Rows without one repeat nothing: {found.lacking:,} of the sample."
    yield f"  unique: {{by: {_scalar(found.column.name)}, within: 7 days}}"


def _derived(proposal: Proposal) -> dict[str, str]:
    """Keys that gold has a column of its own for, and the names that they get."""
    names = [column.name for column in proposal.columns]
    clashing = [key.name for key in proposal.keys if folded(key.name) in COLUMNS_IN_USE]
    return {name: free_name(f"{name}_value", names) for name in dict.fromkeys(clashing)}


def _watermark(proposal: Proposal) -> Iterator[str]:
    yield "watermark:"
    order = proposal.order
    if order is None:
        yield "  # How late rows come is not known without their times."
        yield "  delay: 10 minutes"
        yield "  seal_after_idle: 1 hour"
        return
    came = f"came up to {_about(order.disorder)} after a newer one"
    why = came if order.disorder else "came in the order of time"
    yield f"  # The sample's rows {why}{'; but:' if order.late or order.ahead else '.'}"
    if order.late:
        latest = _about(order.latest)
        yield f"  # {_rows(order.late)} came later, by up to {latest}: late rows are repaired."
    if order.ahead:
        ahead = f"{_rows(order.ahead)} {'is' if order.ahead == 1 else 'are'}"
        yield f"  # {ahead} at least {_about(order.ahead_by)} ahead of all others, and would make"
        yield "  # those late. `event_time.max_future` rejects what is ahead of the clock."
    yield f"  delay: {duration_text(order.delay)}"
    yield "  # Closes the last windows once no row has come for this long."
    yield f"  seal_after_idle: {duration_text(max(proposal.window, timedelta(hours=1)))}"


def _table(proposal: Proposal, keys: Sequence[str]) -> Iterator[str]:
    yield "tables:"
    yield f"  {_scalar(proposal.table)}:"
    if proposal.order is not None:
        spread = _about(proposal.order.spread) if proposal.order.spread else "no time"
        yield f"    # The sample's events spread over {spread}."
    yield "    # Other kinds: sessions of a key, `window: {session: 30 minutes}`; `join`; `fold`."
    yield f"    window: {{length: {duration_text(proposal.window)}}}"
    if keys:
        counts = [f"{key.distinct:,}" for key in proposal.keys]
        yield f"    # Of few values: {' and '.join(counts)} in the sample."
        yield f"    group_by: [{', '.join(map(_scalar, keys))}]"
    else:
        yield "    # No column has few values; name keys with `group_by`."
    yield "    measures:"
    if any(map(_is_level, proposal.numbers)):
        yield "      # Sums of prices, rates, degrees and their like say nothing: their averages."
    taken = list(keys)
    for name, expression in _measures(proposal):
        taken.append(free_name(name, taken))
        yield f"      {_scalar(taken[-1])}: {_scalar(expression)}"


def _measures(proposal: Proposal) -> Iterator[tuple[str, str]]:
    yield "events", "count(*)"
    for column in proposal.flags:
        yield f"{column.name}_count", f"count_if({_sql_name(column.name)})"
    for column in proposal.numbers:
        for measure in ("avg", "min", "max") if _is_level(column) else ("sum",):
            yield f"{column.name}_{measure}", f"{measure}({_sql_name(column.name)})"


def _is_level(column: SampleColumn) -> bool:
    return _LEVEL.search(column.words) is not None


def _sql_name(name: str) -> str:
    """The column's name in SQL; in backticks where SQL would read something else."""
    try:
        parsed = sqlglot.parse_one(f"sum({name})", dialect="spark")
    except SqlglotError:
        return f"`{name}`"
    column = parsed.this if isinstance(parsed, exp.Sum) else None
    is_name = isinstance(column, exp.Column) and column.name == name and not column.table
    return name if is_name else f"`{name}`"


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _about(duration: timedelta) -> str:
    """In the largest unit that it has one of, whole."""
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if (number := round(duration.total_seconds() / unit)) >= 1:
            return f"{number:,} {name}{'s' if number > 1 else ''}"
    return "less than a second"


def _flow(entry: Any) -> str:
    if isinstance(entry, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in entry.items())}}}"
    if isinstance(entry, list):
        return f"[{', '.join(map(_flow, entry))}]"
    # A comma ends a text that has no quotes.
    is_plain = isinstance(entry, str) and "," not in entry
    return _scalar(entry) if is_plain else json.dumps(entry, ensure_ascii=False)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT
    return text if plain else json.dumps(text, ensure_ascii=False)
