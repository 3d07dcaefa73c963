"""The kinds of operators that the suite knows: a table of each, and its rows in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from tests.kit.late_model import EPOCH
from tests.kit.running import Place, clicks
from tests.operators.contract.folded import SOURCE, folded, folds, hanging_together
from tests.operators.contract.joins import (
    OTHER,
    PartnerPlace,
    join_table,
    joins,
    partner_pipeline,
    sides,
)
from tests.operators.contract.looked_up import (
    Said,
    looked_up,
    looking_up,
    looks_good,
    lookups,
    said,
)
from tests.operators.contract.stretches import StretchTable
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.pipeline.model import (
    CalendarTable,
    FoldTable,
    GappedTable,
    JoinTable,
    Pipeline,
    SessionTable,
    Table,
    WindowTable,
)

Row = dict[str, Any]
# A row of gold: its identity and its values, in the operator's order.
Known = dict[tuple[Any, ...], tuple[Any, ...]]

TABLE = "t"
DAY = datetime(2026, 7, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDLE = "1 hour"
WHERE = "amount > 0 and not key <=> 'nobody'"


@dataclass(frozen=True)
class Kind:
    """A table of one kind. `model` gives what a batch over all rows gives; `changed` are other
    definitions of the same kind, each of which needs a new generation."""

    name: str
    table: Table
    model: Callable[[Sequence[Row]], Known]
    changed: Sequence[Table] = ()
    # The model of the same table over rows that do not count, too.
    of_all: Callable[[Sequence[Row]], Known] | None = None
    # Of a table that looks others up, the model while these say something; `model` is by what they
    # say before any change.
    model_by: Callable[[Said], Callable[[Sequence[Row]], Known]] | None = None

    @property
    def operator(self) -> Operator:
        return operator_of(place_of(Path("/unused"), self).pipeline, TABLE)

    @property
    def joins(self) -> bool:
        """Does it read another pipeline's bronze too?"""
        return isinstance(self.table, JoinTable)

    @property
    def looks_up(self) -> bool:
        """Does it name columns of tables that others keep?"""
        return self.model_by is not None

    @property
    def counts_some(self) -> bool:
        """Do only some rows of bronze count?"""
        return self.table.where is not None or self.looks_up

    def counts(self, row: Row, changes: int) -> bool:
        """Does a row, after so many changes of its lookups?"""
        if isinstance(self.table, WindowTable) and self.looks_up:
            return looks_good(self.table, said(changes), row)
        return counts(row)

    def last_end(self, rows: Sequence[Row]) -> datetime:
        """The end of its newest row, by what does not count too; of a fold the end of the newest
        episode, whether its last row puts something out or not."""
        if isinstance(self.table, FoldTable):
            return max(map(_when, rows)) + self.table.gap
        return max(values[0] for values in (self.of_all or self.model)(rows).values())

    @property
    def emits_open_rows(self) -> bool:
        """Does gold show all rows that are open?"""
        return self.table.output_mode != "append"

    @property
    def has_fixed_lengths(self) -> bool:
        return not isinstance(self.table, GappedTable)

    @property
    def shows_closed_rows_only(self) -> bool:
        """Does gold hold nothing that is open?"""
        return isinstance(self.table, FoldTable) or (
            self.has_fixed_lengths and not self.emits_open_rows
        )


@dataclass
class KindPlace(Place):
    """A root whose pipeline has one table of a kind."""

    kind: Kind = field(kw_only=True)

    @property
    def pipeline(self) -> Pipeline:
        watermark = {"delay": "10 minutes", "seal_after_idle": IDLE}
        self.content = clicks(watermark=watermark)
        changed: dict[str, Any] = {"tables": {TABLE: self.kind.table}}
        if self.kind.joins:
            changed["partners"] = {OTHER: partner_pipeline().as_partner()}
        if isinstance(self.kind.table, WindowTable) and self.kind.looks_up:
            changed["lookup"] = lookups(self.kind.table)
        return super().pipeline.model_copy(update=changed)

    def model(self, rows: Sequence[Row]) -> Known:
        """What a batch over all rows gives now."""
        model_by = self.kind.model_by
        return (model_by(said(self.changes_said)) if model_by else self.kind.model)(rows)

    @property
    def changes_said(self) -> int:
        """How often its lookups have changed."""
        file = self.root / "dims/changes"
        return int(file.read_text()) if file.exists() else 0

    def change_lookups(self) -> None:
        """Have them say something else, where the table has some."""
        if self.kind.looks_up:
            changes = self.changes_said + 1
            (self.root / "dims").mkdir(parents=True, exist_ok=True)
            (self.root / "dims/changes").write_text(str(changes))
            said(changes).write(self.root)

    def land_rows(self, name: str, rows: Sequence[Row]) -> None:
        """Land what a run is to find; rows of the right side stand in the other bronze then, and
        lookups say something else."""
        self.change_lookups()
        left, right = sides(rows)
        if self.kind.joins:
            partner = PartnerPlace(self.root, name=OTHER)
            partner.make()
            partner.append(right)
        self.land(name, as_json(left))

    def known(self) -> Known:
        """The rows of gold; an identity that stands there twice is an error."""
        operator = self.kind.operator
        found: Known = {}
        for row in self.gold(TABLE).to_pylist():
            identity = tuple(row[name] for name in operator.identity)
            assert identity not in found, f"{identity} stands twice in gold"
            found[identity] = tuple(row[name] for name in operator.values)
        return found


def event(minute: float, key: str | None = "a", amount: int = 1) -> Row:
    return {"at": DAY + minute * MINUTE, "key": key, "amount": amount}


def of(minute: float, key: str | None = "a", amount: int = 3) -> Row:
    """A row of a join's right side."""
    return {**event(minute, key, amount), "side": "right"}


def as_json(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "at": row["at"].isoformat()} for row in rows]


def landings(seed: int, runs: int = 4) -> list[list[Row]]:
    """What lands before each run: rows that go on with time, late ones, and some beside others."""
    draw = Random(seed)
    found = []
    for run in range(runs):
        fresh = [40 * run + draw.uniform(0, 40) for _ in range(draw.randint(3, 9))]
        late = [draw.uniform(0, 40 * run + 1) for _ in range(draw.randint(0, 6))]
        near = [minute + draw.uniform(0, 2) for minute in draw.sample(fresh, 2)]
        minutes = [*fresh, *late, *near]
        found.append([event(minute, draw.choice("ab") if draw.random() < 0.9 else None)
                      for minute in minutes])  # fmt: skip
    return found


def joined_landings(seed: int, runs: int = 4) -> list[list[Row]]:
    """The same for both sides of a join; one side is silent now and then."""
    left, right = landings(seed, runs), landings(seed + 1_000, runs)
    draw = Random(seed)
    found = []
    for of_left, of_right in zip(left, right, strict=True):
        silent = draw.choice(["left", "right", "neither", "neither"])
        rows = [] if silent == "left" else of_left
        others = [] if silent == "right" else of_right
        found.append([*rows, *({**row, "side": "right", "amount": 3} for row in others)])
    return found


def landings_of(kind: Kind, seed: int, runs: int = 4) -> list[list[Row]]:
    drawn = joined_landings(seed, runs) if kind.joins else landings(seed, runs)
    if not kind.counts_some:
        return drawn
    # Of the left side each third row does not count, nor does the newest.
    found = []
    for rows in drawn:
        left, right = sides(rows)
        amounts = [(2, -1, 3, None, 5, 0, 7)[number % 7] for number in range(len(left))]
        mixed = [{**row, "amount": n} for row, n in zip(left, amounts, strict=True)]
        newest = max((row["at"] for row in mixed), default=DAY) + timedelta(seconds=7)
        found.append([*mixed, {**event(0, "nobody"), "at": newest}, *right])
    return found


def counts(row: Row) -> bool:
    """By WHERE; each row of the right side does."""
    if row in sides([row])[1]:
        return True
    return row["amount"] is not None and row["amount"] > 0 and row["key"] != "nobody"


def windows(table: WindowTable) -> Callable[[Sequence[Row]], Known]:
    length, slide = table.window.length, table.window.slide
    first = EPOCH + table.window.offset

    def model(rows: Sequence[Row]) -> Known:
        amounts: defaultdict[tuple[datetime, str | None], list[int]] = defaultdict(list)
        for row in rows:
            start = first + (row["at"] - first) // slide * slide
            while start + length > row["at"]:
                amounts[start, row["key"]].append(row["amount"])
                start -= slide
        return {
            (start, key): (start + length, len(held), sum(held), len(held))
            for (start, key), held in amounts.items()
        }

    return model


def stretches(table: StretchTable) -> Callable[[Sequence[Row]], Known]:
    length = table.window.length

    def model(rows: Sequence[Row]) -> Known:
        within: defaultdict[tuple[datetime, str | None], list[Row]] = defaultdict(list)
        for row in rows:
            start = EPOCH + (row["at"] - EPOCH) // length * length
            within[start, row["key"]].append(row)
        return {
            (held[0]["at"], key): (start + length, held[-1]["at"], len(held))
            for (start, key), of_key in within.items()
            for held in hanging_together(sorted(of_key, key=_when), table.gap)
        }

    return model


def _when(row: Mapping[str, Any]) -> datetime:
    when: datetime = row["at"]
    return when


def sessions(table: SessionTable) -> Callable[[Sequence[Row]], Known]:
    gap = table.window.session

    def model(rows: Sequence[Row]) -> Known:
        by_key: defaultdict[str | None, list[Row]] = defaultdict(list)
        for row in rows:
            by_key[row["key"]].append(row)
        return {
            (held[0]["at"], key): (
                held[-1]["at"] + gap,
                len(held),
                sum(row["amount"] for row in held),
                len(held),
            )
            for key, rows_of_key in by_key.items()
            for held in hanging_together(sorted(rows_of_key, key=_when), gap)
        }

    return model


def session_table(mode: str, gap: timedelta = 6 * MINUTE) -> SessionTable:
    return SessionTable.model_validate(
        {
            "window": {"session": gap},
            "group_by": ["key"],
            "measures": {"events": "count(*)", "amount": "sum(amount)"},
            "output_mode": mode,
            "accept_unbounded_state": mode == "complete",
        }
    )


def _windows(mode: str, length: int = 10, slide: int = 10, offset: int = 0) -> WindowTable:
    window = {"length": length, "slide": slide, "offset": offset}
    return WindowTable.model_validate(
        {
            "window": {name: f"{minutes} minutes" for name, minutes in window.items()},
            "group_by": ["key"],
            "measures": {"events": "count(*)", "amount": "sum(amount)"},
            "output_mode": mode,
            "accept_unbounded_state": mode == "complete",
        }
    )


def _days(
    mode: str = "update", zone: str = "Atlantic/Cape_Verde", calendar: str = "day"
) -> CalendarTable:
    content = {
        "window": {"calendar": calendar, "zone": zone},
        "output_mode": mode,
        "group_by": ["key"],
        "measures": {"events": "count(*)", "amount": "sum(amount)"},
    }
    return CalendarTable.model_validate(content)


def calendar_days(table: CalendarTable) -> Callable[[Sequence[Row]], Known]:
    """Of a zone whose clocks do not change: by the date that they show."""
    zone = ZoneInfo(table.window.zone)

    def model(rows: Sequence[Row]) -> Known:
        amounts: defaultdict[tuple[date, str | None], list[int]] = defaultdict(list)
        for row in rows:
            amounts[row["at"].astimezone(zone).date(), row["key"]].append(row["amount"])
        return {
            (_midnight(day, zone), key): (
                *(_midnight(day + timedelta(days=1), zone), day),
                *(len(held), sum(held), len(held)),
            )
            for (day, key), held in amounts.items()
        }

    return model


def _distinct(mode: str, length: int = 10) -> WindowTable:
    """Measures of which none has a bound, over values that are in the rows' times: each comes in
    several rows."""
    content = {
        "window": {"length": f"{length} minutes"},
        "output_mode": mode,
        "group_by": ["key"],
        "measures": {
            "minutes": "count(distinct minute(at) % 4)",
            "most": "mode(minute(at) % 4, true)",
            "top": "slice(sort_array(collect_list(struct(minute(at) % 4 as m, at)), false), 1, 2)",
            "last": "max_by(amount, struct(at, amount))",
        },
    }
    return WindowTable.model_validate(content)


def distinct(table: WindowTable) -> Callable[[Sequence[Row]], Known]:
    length = table.window.length

    def model(rows: Sequence[Row]) -> Known:
        within: defaultdict[tuple[datetime, str | None], list[Row]] = defaultdict(list)
        for row in rows:
            within[EPOCH + (row["at"] - EPOCH) // length * length, row["key"]].append(row)
        return {
            (start, key): (start + length, *_measured(held))
            for (start, key), held in within.items()
        }

    return model


def _measured(rows: Sequence[Row]) -> tuple[Any, ...]:
    minutes = [row["at"].minute % 4 for row in rows]
    pairs = sorted(((row["at"].minute % 4, row["at"]) for row in rows), reverse=True)
    return (
        len(set(minutes)),
        max(sorted(set(minutes)), key=minutes.count),
        [{"m": minute, "at": when} for minute, when in pairs[:2]],
        max((row["at"], row["amount"]) for row in rows)[1],
        len(rows),
    )


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _stretches(length: int = 30, gap: int = 3) -> StretchTable:
    content = {"window": {"length": f"{length} minutes"}, "group_by": ["key"], "gap": gap * MINUTE}
    return StretchTable.model_validate(content)


def _kinds() -> Iterator[Kind]:
    for mode in ("update", "append", "complete"):
        table = _windows(mode)
        yield Kind(f"windows-{mode}", table, windows(table), [_windows(mode, 20, 10)])
    sliding = _windows("update", 15, 5)
    yield Kind("sliding", sliding, windows(sliding), [_windows("update", 15, 15)])
    for mode, slide in (("update", 5), ("append", 15)):
        moved = _windows(mode, 15, slide, 2)
        others = [_windows(mode, 15, slide, 4), _windows(mode, 15, slide)]
        yield Kind(f"offset-{mode}", moved, windows(moved), others)
    for mode in ("update", "append"):
        days = _days(mode)
        others = [_days(mode, calendar="week"), _days(mode, "America/Noronha")]
        yield Kind(f"days-{mode}", days, calendar_days(days), others)
        table = _distinct(mode)
        yield Kind(f"distinct-{mode}", table, distinct(table), [_distinct(mode, 20)])
    for mode in ("append", "complete"):
        of_rows, longer = session_table(mode), session_table(mode, 7 * MINUTE)
        yield Kind(f"sessions-{mode}", of_rows, sessions(of_rows), [longer])
    for how in ("inner", "left"):
        table = join_table(how, before=1)
        other = "left" if how == "inner" else "inner"
        others = [
            join_table(how, before=1, after=8),
            join_table(how, before=2),
            join_table(how, before=1, slide=5),
            join_table(other, before=1),
        ]
        yield Kind(f"joins-{how}", table, joins(table), others)
    thirds = folds()
    other_code = folds(source=SOURCE.replace("* 31", "* 37"))
    yield Kind(
        "folds",
        thirds,
        partial(folded, gap=thirds.gap),
        [folds(7), folds(order_by=["amount"]), other_code],
    )
    for mode in ("update", "append"):
        looking = looking_up(mode)
        of_all = windows(_windows(mode))
        by = partial(looked_up, looking)
        others = [looking_up(mode, 20), looking_up(mode, 20, 10)]
        yield Kind(f"lookup-{mode}", looking, by(said(0)), others, _as_if_all(of_all), by)
    gaps = _stretches()
    yield Kind("stretches", gaps, stretches(gaps), [_stretches(gap=4), _stretches(length=20)])


def _recomputed(kind: Kind) -> Kind:
    """The same kind, of a table whose query keeps no state: its answer is the same."""
    table, *changed = (
        one.model_copy(update={"stream": "recompute"}) for one in (kind.table, *kind.changed)
    )
    return replace(kind, name=f"{kind.name}-recomputed", table=table, changed=changed)


def _counting(kind: Kind) -> Kind:
    """The same kind, of a table for which only some rows of bronze count."""
    table, *changed = (
        one.model_copy(update={"where": WHERE}) for one in (kind.table, *kind.changed)
    )

    def model(rows: Sequence[Row]) -> Known:
        return kind.model([row for row in rows if counts(row)])

    every = kind.model
    if isinstance(kind.table, JoinTable):
        # Also of a row that matches nothing.
        join = kind.table.join.model_copy(update={"type": "left"})
        every = joins(kind.table.model_copy(update={"join": join}))

    return Kind(f"{kind.name}-where", table, model, changed, _as_if_all(every))


def _as_if_all(model: Callable[[Sequence[Row]], Known]) -> Callable[[Sequence[Row]], Known]:
    return lambda rows: model([{**row, "amount": 1} for row in rows])


# Tables that can be recomputed: those that do not emit all rows each time, but for stretches, which
# the tests alone have.
_RECOMPUTABLE = (
    *("windows-update", "windows-append", "sliding", "sessions-append"),
    *("joins-inner", "joins-left", "folds"),
)
_ENGINES: Mapping[str, Kind] = {kind.name: kind for kind in _kinds()}
_ALL: Mapping[str, Kind] = {
    **_ENGINES,
    **{kind.name: kind for kind in map(_recomputed, map(_ENGINES.__getitem__, _RECOMPUTABLE))},
}
_COUNT_SOME = (
    *("windows-update", "windows-append", "windows-complete", "windows-append-recomputed"),
    *("sessions-append", "sessions-append-recomputed", "folds", "joins-inner", "joins-left"),
    "days-update",
)
KINDS: Mapping[str, Kind] = {
    **_ALL,
    **{kind.name: kind for kind in map(_counting, map(_ALL.__getitem__, _COUNT_SOME))},
}


def place_of(root: Path, kind: Kind) -> KindPlace:
    return KindPlace(root, kind=kind)
