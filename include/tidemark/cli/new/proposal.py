"""What a pipeline over a sample's rows could be: pure, and the same for the same rows.

A proposal to be read and corrected: a sample tells what there is, not what is meant.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from tidemark.cli.new.column_types import MOST
from tidemark.cli.new.columns import (
    INTEGERS,
    LeftOutField,
    SampleColumn,
    columns_beside,
    columns_of,
)
from tidemark.cli.new.event_times import TimeFormat, time_format
from tidemark.cli.new.sample import Row, Sample
from tidemark.errors import SampleUnusable
from tidemark.pipeline.kafka_columns import KEY
from tidemark.pipeline.names import COLUMNS_IN_USE, folded
from tidemark.pipeline.problems import nearest

# In words apart by `_`.
_ID = re.compile(r"(^|_)(id|uuid|guid)$")
# Of the rows that have an id, one in so many may share it with a different row: a run rejects it.
_ONE_IN = 100
_MOST_KEYS = 2
_MOST_KEY_VALUES = 50
_MOST_MEASURES = 6
# In words apart by `_`.
_TIME = re.compile(r"(^|_)(time|timestamp|ts|date|datetime|at|when|epoch)(_|$)")
_OF_THE_EVENT = ("event_time", "event_timestamp", "timestamp", "time", "ts", "occurred_at")
_OF_THE_RECORD = re.compile(
    r"(^|_)(updated|modified|received|processed|ingested|loaded|inserted|deleted|expires)(_|$)"
)
# Numbers that name something; their sum says nothing.
_NAMING = re.compile(
    r"(^|_)(id|uuid|guid|code|status|type|level|version|year|month|day|hour|port|zip|"
    r"number|no|num|nr|rank|index|key|ref|sku|ean|isbn|tel|fax|lat|lon|lng|latitude|longitude)$|"
    # Ends of words too: smartphone, Kundennummer, Längengrad.
    r"(code|number|phone|nr|nummer|plz|leitzahl|telefon|ngrad)$"
)
# They follow from the event time, which windows are of.
_CALENDAR = re.compile(r"(^|_)(year|quarter|month|week|weekday|day|hour|minute|second)$")
_WINDOWS = {
    "per_day": timedelta(days=1),
    "per_hour": timedelta(hours=1),
    "per_10_minutes": timedelta(minutes=10),
    "per_minute": timedelta(minutes=1),
}
_Rank = tuple[bool, bool, int, bool]
# So many windows a sample should fill, so that they show something.
_FEW_WINDOWS = 2


@dataclass(frozen=True)
class IdColumn:
    """A column that is named like an id. Of the sample's rows, one that comes twice counted once,
    `having` have one, `lacking` have none, so that they repeat nothing, and `shared` have that of
    a different row."""

    column: SampleColumn
    having: int
    lacking: int
    shared: int

    @property
    def tells_rows_apart(self) -> bool:
        """Do at least MOST of the rows have one, and hardly any two of them the same?"""
        is_common = self.having >= MOST * (self.having + self.lacking)
        return is_common and self.shared <= self.having // _ONE_IN


def id_columns(columns: Sequence[SampleColumn], sample: Sample) -> tuple[IdColumn, ...]:
    """The columns that are named like an id, in their order."""
    different = _different(sample)
    return tuple(
        _counted(column, different)
        for column in columns
        if _ID.search(column.words) and column.type in ("string", *INTEGERS)
    )


def _different(sample: Sample) -> list[Row]:
    return list({repr(sorted(row.items())): row for row in sample.rows}.values())


def _counted(column: SampleColumn, rows: Sequence[Row]) -> IdColumn:
    """What is not of the column's type, where that is text or a whole number, is rejected, and no
    id."""
    values = [row.get(column.source_name) for row in rows]
    ids = [one for one in values if one is not None]
    if column.type in ("string", *INTEGERS):
        asked = str if column.type == "string" else int
        ids = [one for one in ids if isinstance(one, asked) and not isinstance(one, bool)]
    # A list or an object has no hash.
    different = len(set(map(repr, ids)))
    return IdColumn(column, len(ids), len(values) - len(ids), len(ids) - different)


@dataclass(frozen=True)
class Proposal:
    """A pipeline over a sample. `keys` are columns, `order` tells how its events follow upon each
    other, `no_ids` are named like an id and none, `is_typed`: the source tells the types.

    `event_time`: None where no column can be it; then `no_time` says what was looked for, and there
    is no order."""

    rows: int
    columns: tuple[SampleColumn, ...]
    left_out: tuple[LeftOutField, ...]
    event_time: SampleColumn | None
    time_format: TimeFormat | None
    no_time: str
    unique: IdColumn | None
    no_ids: tuple[IdColumn, ...]
    keys: tuple[SampleColumn, ...]
    numbers: tuple[SampleColumn, ...]
    flags: tuple[SampleColumn, ...]
    table: str
    window: timedelta
    order: Order | None
    is_typed: bool


def propose(
    sample: Sample,
    event_time: str | None = None,
    group_by: Sequence[str] | None = None,
    unique_by: str | None = None,
    table: str | None = None,
) -> Proposal:
    """A pipeline over these rows, with the event time, the keys, the id and the table's name that
    are asked for.

    SampleUnusable where there is no column, or one that was asked for cannot be what it was asked
    for.
    """
    columns, left_out = columns_of(sample)
    beside = columns_beside(sample)
    found = _event_time(columns, beside, event_time)
    time, written = found or (None, None)
    no_time = "" if found else _no_time(columns, left_out)
    asked_for = group_by or ()
    columns += [
        one for one in beside if one is time or one.name in asked_for or _tells_more(one, columns)
    ]
    others = [column for column in columns if column is not time]
    named = id_columns(others, sample)
    if unique_by is None:
        unique = next((one for one in named if one.tells_rows_apart), None)
    else:
        unique = _counted(_asked(others, [unique_by])[0], _different(sample))
    no_ids = tuple(one for one in named if not one.tells_rows_apart and one != unique)
    plain = [column for column in others if unique is None or column is not unique.column]
    keys = _keys(plain, len(sample.rows)) if group_by is None else _asked(others, group_by)
    free = [column for column in plain if column not in keys]
    numbers = [one for one in free if one.is_number and not _names_something(one)]
    flags = [column for column in free if column.type == "boolean"]
    instants = [instant for instant in (written.times if written else ()) if instant is not None]
    order = order_of(instants) if instants else None
    name, window = _window(order.spread if order else timedelta(0))
    return Proposal(
        len(sample.rows), tuple(columns), tuple(left_out), time, written, no_time, unique, no_ids,
        tuple(keys), tuple(numbers[:_MOST_MEASURES]), tuple(flags[:_MOST_MEASURES]), table or name,
        window, order, sample.schema is not None,
    )  # fmt: skip


def _event_time(
    columns: Sequence[SampleColumn],
    beside: Sequence[SampleColumn],
    asked: str | None,
) -> tuple[SampleColumn, TimeFormat] | None:
    """Of the rows' own fields; where none is a time, of what is beside them; None: neither."""
    if asked is not None:
        (column,) = _asked([*columns, *beside], [asked])
        if (written := time_format(column.values)) is None:
            shown = column.present[0]
            raise SampleUnusable(
                f"The column `{asked}` cannot be the event time: most of its values, as "
                f"`{shown!s:.60}`, are none of {_FORMATS}. {_BY_HAND}"
            )
        return column, written
    found = _times(columns) or _times(beside)
    if not found:
        return None
    _, _, column, written = min(found, key=lambda one: one[:2])
    return column, written


def _no_time(columns: Sequence[SampleColumn], left_out: Sequence[LeftOutField]) -> str:
    # In quotes and ASCII, for the file has it in a comment, which a name could end.
    names = ", ".join(json.dumps(one.name) for one in left_out[:10])
    out = f" Not usable: {names}." if names else ""
    told = f"No column looks like an event time: {_FORMATS}, these in a column named like a time."
    if not columns:
        raise SampleUnusable(f"{told}{out} {_BY_HAND}")
    return f"{told}{out}"


def _times(
    columns: Sequence[SampleColumn],
) -> list[tuple[_Rank, int, SampleColumn, TimeFormat]]:
    """Columns that can be the event time, with their rank and place."""
    return [
        (rank, position, column, written)
        for position, column in enumerate(columns)
        if (written := time_format(column.values)) is not None
        and (rank := _rank(column, written)) is not None
    ]


def _tells_more(beside: SampleColumn, columns: Sequence[SampleColumn]) -> bool:
    """Is it a key that nearly all messages have, and that is no field of theirs as well?"""
    if beside.name != KEY or len(beside.present) < MOST * len(beside.values):
        return False
    return all(column.values != beside.values for column in columns)


_FORMATS = (
    "text of ISO 8601 or another common form, and seconds, milliseconds or microseconds since 1970"
)


_BY_HAND = (
    "A file written by hand may have any datetime pattern of Spark (README, Describe a pipeline). "
    "Nothing was written."
)


def _rank(column: SampleColumn, written: TimeFormat) -> _Rank | None:
    """The smaller the better; None for numbers that merely are as large as counts of time."""
    named = _TIME.search(column.words) is not None
    if column.is_number and not named:
        return None
    if column.words in _OF_THE_EVENT:
        name = _OF_THE_EVENT.index(column.words)
    elif _OF_THE_RECORD.search(column.words):
        name = len(_OF_THE_EVENT) + 2
    else:
        name = len(_OF_THE_EVENT) + (0 if named else 1)
    lacking = written.fitting < MOST * len(column.values)
    # Where a schema says what is a time, text and numbers that look like one come after it.
    is_guess = column.known is not None and not column.is_time
    return lacking, is_guess, name, written.zone is not None


def _keys(columns: Sequence[SampleColumn], rows: int) -> list[SampleColumn]:
    """Columns of few values, more than one, that come again and again."""
    most = min(_MOST_KEY_VALUES, max(1, rows // 2))
    few = [one for one in columns if _may_be_key(one) and 1 < one.distinct <= most]
    return few[:_MOST_KEYS]


def _may_be_key(column: SampleColumn) -> bool:
    """Text, or numbers that name something else than a part of the event's time."""
    if _CALENDAR.search(column.words):
        return False
    return column.type == "string" or (column.type in INTEGERS and _names_something(column))


def _names_something(column: SampleColumn) -> bool:
    words = column.words
    return any(named.search(words) for named in (_NAMING, _TIME, _CALENDAR))


def _asked(columns: Sequence[SampleColumn], names: Sequence[str]) -> list[SampleColumn]:
    known = {column.field: column for column in columns if column.field}
    known |= {column.name: column for column in columns}
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f" Did you mean `{near}`?" if near else ""
            raise SampleUnusable(
                f"The sample has no column `{name}` for this.{hint} It has: {', '.join(known)}. "
                "Nothing was written."
            )
    return [known[name] for name in names]


def _window(spread: timedelta) -> tuple[str, timedelta]:
    if not spread:
        return "per_hour", _WINDOWS["per_hour"]
    fitting = [item for item in _WINDOWS.items() if spread >= _FEW_WINDOWS * item[1]]
    return fitting[0] if fitting else ("per_minute", _WINDOWS["per_minute"])


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, with `_` added until it is none of these and none of the platform's."""
    used = {*map(folded, taken), *COLUMNS_IN_USE}
    while folded(wanted) in used:
        wanted += "_"
    return wanted


_DELAYS = tuple(
    timedelta(minutes=minutes) for minutes in (10, 60, 24 * 60, 7 * 24 * 60, 30 * 24 * 60)
)
# One row in so many may come later than the delay: such rows are repaired.
_LATE_ONE_IN = 50
# At either end one row in so many says nothing of how far the others spread.
_FAR_OFF_ONE_IN = 100


@dataclass(frozen=True)
class Order:
    """What was seen of the rows' event times, in the order of the rows.

    `delay` is the smallest of some that nearly all rows keep; `disorder` is how far at most a row
    of those lay before one further up, and `spread` is from the first of their events to the last,
    but for a few at either end.
    The exceptions: `late` rows, that lay up to `latest` before one further up, and `ahead` rows,
    too few to be believed, that lie at least `ahead_by` after all others and made those late.
    """

    delay: timedelta
    disorder: timedelta
    spread: timedelta
    late: int = 0
    latest: timedelta = timedelta(0)
    ahead: int = 0
    ahead_by: timedelta = timedelta(0)


def order_of(instants: Sequence[datetime]) -> Order:
    """The order of these instants, one at least, with the smallest delay; of equal ones that with
    the fewest rows ahead. Pure."""
    best = _without(instants, 0)
    for ahead, gap in _gaps(instants):
        if best.delay == _DELAYS[0]:
            break
        found = _without(instants, ahead)
        if found.delay < best.delay and found.delay <= gap:
            best = found
    return best


def _gaps(instants: Sequence[datetime]) -> Iterator[tuple[int, timedelta]]:
    """So many newest instants lie so far after all others; fewest first."""
    ordered = sorted(instants, reverse=True)
    most = len(ordered) - math.ceil(MOST * len(ordered))
    for number in range(1, most + 1):
        gap = ordered[number - 1] - ordered[number]
        if gap >= _DELAYS[0]:
            yield number, gap


def _without(instants: Sequence[datetime], ahead: int) -> Order:
    """The order of the others where the newest ones, so many, are taken for mistakes."""
    ordered = sorted(instants)
    newest = ordered[len(ordered) - ahead - 1]
    rest = [instant for instant in instants if instant <= newest]
    behind = [so_far - instant for so_far, instant in zip(accumulate(rest, max), rest, strict=True)]
    kept = sorted(behind)[len(behind) - 1 - len(behind) // _LATE_ONE_IN]
    delay = next((delay for delay in _DELAYS if delay >= kept), _DELAYS[-1])
    in_time = sorted(instant for instant, by in zip(rest, behind, strict=True) if by <= delay)
    few = len(in_time) // _FAR_OFF_ONE_IN
    late = [by for by in behind if by > delay]
    return Order(
        delay,
        disorder=max(by for by in behind if by <= delay),
        spread=in_time[len(in_time) - 1 - few] - in_time[few],
        late=len(late),
        latest=max(late, default=timedelta(0)),
        ahead=ahead,
        ahead_by=ordered[-ahead] - newest if ahead else timedelta(0),
    )
