"""Folds without Spark: order, episodes, batches, and what a class does wrong."""

from __future__ import annotations

import importlib
import math
import random
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field
from pyspark.sql import types as T

from tests.kit.running import clicks
from tests.operators.contract.folded import FILE, SOURCE, WEIGHTS, folded, folds
from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.folding import (
    Folding,
    FoldSpec,
    HeldRow,
    Output,
    folded_rows,
    folded_twice,
)
from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.loaded import load_fold
from tidemark.operators.folds.values import ordered, plain, read_rows, reader
from tidemark.pipeline.instants import epoch_us
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.streaming.operators.folds import StreamedFolds
from tidemark.testing import FoldFailed, fold

Row = dict[str, Any]
DAY = datetime(2026, 7, 1, tzinfo=UTC)
GAP = timedelta(minutes=6)
THIRDS = {"what": "string", "mixed": "long", "since": "timestamp"}


def at(minute: float) -> datetime:
    return DAY + timedelta(minutes=minute)


def row(minute: float, amount: int = 1) -> Row:
    return {"at": at(minute), "key": "a", "amount": amount}


def spec(**changes: Any) -> FoldSpec:
    table = folds()
    columns = ("amount", "at", "key")
    made = FoldSpec(table.fold.python, table.code, GAP // timedelta(microseconds=1), columns,
                    table.fold.emits)  # fmt: skip
    return replace(made, **changes)


def held(rows: Sequence[Row]) -> list[HeldRow]:
    return [HeldRow(epoch_us(one["at"]), (one["amount"], one["at"], "a")) for one in rows]


def shown(outputs: Sequence[Output]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    instant = timedelta(microseconds=1)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return {
        (epoch + one.start * instant, "a", one.number): (
            epoch + one.end * instant,
            *one.values,
            one.rows,
        )
        for one in outputs
    }


rows_of_a_key = st.lists(
    st.builds(row, st.sampled_from([n / 2 for n in range(120)]), st.integers(0, 3)), max_size=30
)


@given(rows_of_a_key, st.randoms(use_true_random=False))
def test_a_fold_of_rows_in_any_order_is_the_one_by_hand(
    rows: list[Row], draw: random.Random
) -> None:
    draw.shuffle(rows)
    assert shown(folded_rows(spec(), held(rows), None)) == folded(rows, GAP)


@given(rows_of_a_key, st.lists(st.integers(0, 80), max_size=6))
def test_frontiers_in_between_change_nothing(rows: list[Row], stops: list[int]) -> None:
    """Rows come to a frontier at a time, in a new task each, whose state was JSON meanwhile."""
    frontiers = [None, *(epoch_us(at(stop)) for stop in sorted(set(stops))), None]
    episode, outputs = None, []
    for after, up_to in pairwise(frontiers):
        new = [one for one in held(rows) if (after is None or one.time > after)
               and (up_to is None or one.time <= up_to)]  # fmt: skip
        kept = replace(episode, read=None) if episode else None
        episode, found = Folding(spec()).fold(kept, new, up_to)
        outputs += found
    assert episode is None
    assert shown(outputs) == folded(rows, GAP)


@given(rows_of_a_key, st.integers(0, 80))
def test_up_to_a_frontier_come_the_outputs_that_nothing_behind_it_changes(
    rows: list[Row], minute: int
) -> None:
    up_to = at(minute)
    found = shown(folded_rows(spec(), held(rows), epoch_us(up_to)))
    every = folded(rows, GAP)
    assert found == {which: values for which, values in every.items() if values[0] <= up_to}


def test_touching_ends_are_one_episode_and_a_microsecond_more_is_another() -> None:
    one = folded_rows(spec(), held([row(0), row(6)]), None)
    assert [(output.number, output.rows) for output in one] == [(1, 2)]
    later = {**row(6), "at": at(6) + timedelta(microseconds=1)}
    assert folded_rows(spec(), held([row(0), later]), None) == []


# What a class does wrong.


@dataclass
class Tally:
    rows: int = 0
    seen: list[int] = field(default_factory=list)


class Dividing:
    """Puts out each row, and fails on an amount of zero."""

    def start(self) -> Tally:
        return Tally()

    def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
        state.rows += 1
        yield {"share": 12 / row["amount"]}

    def on_timeout(self, state: Tally) -> list[Row]:
        return [{"share": float(state.rows)}]


SHARE = {"share": "double"}


def of(kind: type[Any], rows: Sequence[Row], emits: Mapping[str, str] = SHARE, **more: Any) -> Any:
    return fold(kind, rows, time="at", timeout="6 minutes", emits=emits, **more)


def test_a_row_on_which_the_class_raises_takes_its_episode_and_no_other() -> None:
    rows = [row(0), row(1, 0), row(2), row(20, 2)]
    found = of(Dividing, rows, verdicts=True)
    assert [(one["window_start"], one["number"], one["share"], one["rows"]) for one in found] == [
        (at(0), 0, None, 2),
        (at(20), 1, 6.0, 1),
        (at(20), 2, 1.0, 1),
    ]
    assert found[0]["failure"].startswith("ZeroDivisionError: division by zero, ")
    assert "on row 2 of the episode, 2026-07-01T00:01:00Z" in found[0]["failure"]
    with pytest.raises(FoldFailed, match="division by zero"):
        of(Dividing, rows)


def test_before_the_frontier_has_passed_the_row_that_fails_the_outputs_are_there() -> None:
    found = of(Dividing, [row(0), row(3, 0)], up_to=at(2))
    assert [(one["number"], one["share"]) for one in found] == [(1, 12.0)]


def test_the_verdict_names_the_line_of_the_class_file() -> None:
    code = {FILE: SOURCE, "folds/weights.py": WEIGHTS.replace('row["amount"]', 'row["price"]')}
    (verdict,) = folded_rows(spec(code=code), held([row(0), row(1)]), None)
    assert verdict.failure is not None
    assert verdict.failure.startswith("KeyError: 'price', folds/weights.py:3: `return")
    assert (verdict.number, verdict.rows) == (0, 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_is_the_one_that_python_counts(end: str) -> None:
    """To Python what else parts lines, a form feed say, is a character of one."""
    weights = WEIGHTS.replace('row["amount"]', 'row["price"]')
    weights = f"\f\nA = '\u2028'\n{weights}".replace("\n", end)
    code = {FILE: SOURCE, "folds/weights.py": weights}
    (verdict,) = folded_rows(spec(code=code), held([row(0)]), None)
    assert str(verdict.failure).startswith("KeyError: 'price', folds/weights.py:5: `return")


@pytest.mark.parametrize("error", [ImportError, MemoryError])
def test_what_the_environment_lacks_fails_the_task_and_is_no_verdict(
    error: type[BaseException],
) -> None:
    class Lacking(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
            raise error

    with pytest.raises(error):
        of(Lacking, [row(0)], verdicts=True)


def test_a_class_that_a_worker_cannot_load_fails_the_task() -> None:
    code = {FILE: "import no_such_module", "folds/weights.py": WEIGHTS}
    with pytest.raises(PipelineInvalid, match="cannot be imported: ModuleNotFoundError"):
        folded_rows(spec(code=code), held([row(0)]), None)


def test_a_state_that_json_cannot_hold_is_no_fold() -> None:
    source = SOURCE.replace(
        "    rows: int = 0\n", "    rows: int = 0\n    what: Opaque | None = None\n"
    )
    source = source.replace(
        "@dataclass\nclass Seen", "class Opaque:\n    pass\n\n\n@dataclass\nclass Seen"
    )
    with pytest.raises(PipelineInvalid, match="`Seen` is not for JSON"):
        load_fold(f"{FILE}:Thirds", {FILE: source, "folds/weights.py": WEIGHTS})


class Forgetful(Dividing):
    """Counts in the instance, which is no state."""

    count = 0

    def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
        self.count += 1
        yield {"share": float(self.count)}


class Lucky(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
        yield {"share": random.random()}


@pytest.mark.parametrize("kind", [Forgetful, Lucky])
def test_a_class_that_is_not_deterministic_is_found(kind: type[Any]) -> None:
    with pytest.raises(FoldFailed, match="is not deterministic"):
        of(kind, [row(0), row(1), row(2)])


class Shared(Dividing):
    """Keeps in the class what the key before it had."""

    last = 0

    def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
        yield {"share": float(Shared.last)}
        Shared.last = row["amount"]

    def on_timeout(self, state: Tally) -> list[Row]:
        return []


def test_what_a_class_keeps_from_key_to_key_is_found() -> None:
    rows = [row(0, 1), {**row(0, 1), "key": "b"}, {**row(0, 1), "key": "c"}]
    with pytest.raises(FoldFailed, match="is not deterministic"):
        of(Shared, rows, key="key")


BASED = SOURCE.replace("class Thirds:", "BASE = []\n\n\nclass Thirds:").replace(
    "* 31 + weight(row)", "* 31 + (BASE or BASE.append(weight(row)) or BASE)[0]"
)


def test_what_a_module_keeps_of_the_first_key_is_found() -> None:
    """Both folds of a key find it there, where they are of one module."""
    code = {FILE: BASED, "folds/weights.py": WEIGHTS}
    keys = [held([row(minute), row(minute + 1)]) for minute in (0, 20)]
    one, other = (folded_twice(spec(code=code), rows, None) for rows in keys)
    assert [output.failure for output in one] == [None]
    assert "is not deterministic" in str(other[0].failure)


def test_an_error_that_names_what_is_made_anew_is_said_as_it_is() -> None:
    source = SOURCE.replace("state.rows += 1", "raise TypeError(type(state), id(state))")
    code = {FILE: source, "folds/weights.py": WEIGHTS}
    (verdict,) = folded_twice(spec(code=code), held([row(0)]), None)
    assert str(verdict.failure).startswith("TypeError: (<class 'thirds.Seen'>, ")


class WronglyTyped(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
        state.rows = "three"  # type: ignore[assignment]
        return []


class Unknown(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
        return [{"shares": 1}]


class Unfitting(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
        return [{"share": "much"}]


class Share(BaseModel):
    share: float = 1.0


class OneModel(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> Share:  # type: ignore[override]
        return Share()


class OneOutput(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> Row:  # type: ignore[override]
        return {"share": 1.0}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (OneModel, "step returns a Share; it yields outputs, or returns a list"),
        (WronglyTyped, "does not come back from JSON as a Tally"),
        (Unknown, "`shares`, which `emits` does not"),
        (Unfitting, "str is no value of a column of type double"),
        (OneOutput, "step returns a dict; it yields outputs, or returns a list"),
    ],
)
def test_what_a_class_gives_wrongly_is_a_verdict_that_says_it(kind: type[Any], said: str) -> None:
    with pytest.raises(FoldFailed, match=said):
        of(kind, [row(0)])


class Raising(Mapping[str, Any]):
    """An output that cannot say what it holds."""

    def __getitem__(self, name: str) -> Any:
        raise ZeroDivisionError("of the output")

    def __iter__(self) -> Iterator[str]:
        return iter(["share"])

    def __len__(self) -> int:
        return 1


VIENNA = ZoneInfo("Europe/Vienna")


class Light(StrEnum):
    RED = "red"


def giving(output: Any) -> type[Any]:
    class Giving(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Any]:
            yield output

    return Giving


@pytest.mark.parametrize(
    ("kind", "output", "said"),
    [
        ("double", 10**400, "a number is too large for a column of type double"),
        ("float", 1e300, "is too large for a column of type float"),
        ("long", 10**5000, "a number is too large for a column of type long"),
        ("decimal(9,2)", 10**5000, "is no value of a column of type"),
        ("decimal(9,2)", Decimal("sNaN"), "is no value of a column of type"),
        ("timestamp", datetime.max.replace(tzinfo=timezone(-GAP)), "is no time of the years"),
        ("string", "\ud800", "is no text that UTF-8 can hold"),
        ("array<string>", ["a", "\ud800"], "is no text that UTF-8 can hold"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "output",
)
def test_what_a_column_cannot_hold_is_a_verdict(kind: str, output: Any, said: str) -> None:
    (found,) = of(giving({"share": output}), [row(0)], {"share": kind}, verdicts=True)
    assert said in found["failure"]


class Octets(bytes):
    pass


class Day(date):
    pass


class Instant(datetime):
    pass


@pytest.mark.parametrize(
    ("kind", "output", "value"),
    [
        ("string", Light.RED, "red"),
        ("binary", Octets(b"x"), b"x"),
        ("date", Day(2026, 7, 1), date(2026, 7, 1)),
        ("timestamp", Instant(2026, 7, 1, 2, 0, 0, 1, VIENNA), at(0) + timedelta(microseconds=1)),
    ],
)
def test_a_value_of_a_class_of_its_own_is_put_out_as_the_column_s(
    kind: str, output: Any, value: Any
) -> None:
    (found,) = of(giving({"share": output}), [row(0)], {"share": kind}, up_to=at(0))
    assert (found["share"], type(found["share"])) == (value, type(value))


def test_a_verdict_is_text_that_a_table_can_hold() -> None:
    (found,) = of(giving({"\ud800": 1}), [row(0)], verdicts=True)
    assert b"an output has" in found["failure"].encode()


def test_an_output_that_raises_is_a_verdict() -> None:
    with pytest.raises(FoldFailed, match="ZeroDivisionError: of the output"):
        of(giving(Raising()), [row(0)])


def test_a_class_that_ends_the_process_is_a_verdict() -> None:
    class Ending(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
            sys.exit(3)

    with pytest.raises(FoldFailed, match="SystemExit: 3"):
        of(Ending, [row(0)])


@pytest.mark.parametrize("said", ["raise RuntimeError", "return '\ud800'"])
def test_an_error_that_cannot_say_what_it_is_is_a_verdict_all_the_same(said: str) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            if said.startswith("raise"):
                raise RuntimeError
            return "\ud800"

    class Raises(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
            raise Mute

    (found,) = of(Raises, [row(0)], verdicts=True)
    assert found["failure"].encode().startswith(b"Mute")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@dataclass", "import sys\nsys.exit(3)\n\n\n@dataclass"),
        ("    def start", "    def __init__(self):\n        raise SystemExit(3)\n\n    def start"),
    ],
)
def test_a_module_or_class_that_ends_the_process_is_no_fold(before: str, after: str) -> None:
    code = {FILE: SOURCE.replace(before, after, 1), "folds/weights.py": WEIGHTS}
    with pytest.raises(PipelineInvalid, match="SystemExit: 3"):
        load_fold(f"{FILE}:Thirds", code)


class Beside(Dividing):
    def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
        count = getattr(state, "beside", 0) + 1
        state.beside = count  # type: ignore[attr-defined]
        return [{"share": float(count)}]


def test_what_the_state_holds_beside_its_fields_is_gone_after_each_row_wherever_it_is_folded() -> (
    None
):
    found = of(Beside, [row(0), row(1)])
    assert [one["share"] for one in found[:2]] == [1.0, 1.0]


class Model(BaseModel):
    total: Decimal = Decimal(0)
    last: datetime | None = None


class OfAModel:
    """A state that is a model, outputs that are a dataclass."""

    def start(self) -> Model:
        return Model()

    def step(self, state: Model, row: Mapping[str, Any]) -> None:
        state.total += Decimal(row["amount"]) / 4
        state.last = row["at"]

    def on_timeout(self, state: Model) -> Iterator[Ended]:
        yield Ended(state.total, state.last)


@dataclass
class Ended:
    total: Decimal
    last: datetime | None


def test_a_state_may_be_a_model_and_an_output_a_dataclass() -> None:
    emits = {"total": "decimal(10,2)", "last": "timestamp"}
    (found,) = of(OfAModel, [row(0, 1), row(2, 2)], emits)
    assert (found["total"], found["last"], found["rows"]) == (Decimal("0.75"), at(2), 2)


@dataclass
class Inner:
    lowest: float = math.inf
    names: Sequence[str] = ()


@dataclass
class Extremes:
    lowest: float | None = math.inf
    inner: Inner = field(default_factory=Inner)
    all: list[float] = field(default_factory=lambda: [math.nan, -math.inf])


class ModelExtremes(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants", extra="forbid")
    lowest: float | None = math.inf

    @computed_field  # type: ignore[prop-decorator]
    @property
    def half(self) -> float:
        return (self.lowest or 0) / 2


class Renamed(BaseModel):
    lowest: float | None = Field(default=None, alias="LOWEST")


class InfiniteModel(BaseModel):
    lowest: float | None = math.inf


class Excluding(BaseModel):
    lowest: float | None = Field(default=None, exclude=True)


@dataclass
class Newest:
    lowest: Sequence[Any] | None = ()


@dataclass
class Anything:
    lowest: Any = None


@dataclass
class Boundless:
    lowest: Any = math.inf


@dataclass
class Latest:
    lowest: deque[float] | None = None


@dataclass
class Least:
    lowest: defaultdict[str, float] | None = None


@dataclass
class Moment:
    lowest: datetime | None = None


@dataclass
class Clock:
    lowest: time | None = None


@dataclass
class Named:
    lowest: str | None = None


@dataclass
class Colour:
    lowest: Light | None = None


@dataclass
class Many:
    lowest: set[str] | None = None


@dataclass
class ByName:
    lowest: dict[str, int] | None = None


def lowest_of(kind: type[Any], value: Any = None) -> type[Any]:
    """A fold of a state of this type, that keeps a value and puts out what came back of it."""

    class Keeping(Dividing):
        def start(self) -> Any:
            return kind()

        def step(self, state: Any, row: Mapping[str, Any]) -> list[Row]:
            before, state.lowest = state.lowest, state.lowest if value is None else value
            return [{"share": before}]

        def on_timeout(self, state: Any) -> list[Row]:
            return []

    Keeping.start.__annotations__["return"] = kind
    return Keeping


@pytest.mark.parametrize("kind", [Extremes, ModelExtremes, Boundless])
def test_infinity_and_nan_survive_in_a_state(kind: type[Any]) -> None:
    assert [one["share"] for one in of(lowest_of(kind), [row(0), row(1)])] == [math.inf, math.inf]
    found = of(lowest_of(kind, math.nan), [row(0), row(1)])
    assert math.isnan(found[1]["share"])


def test_a_state_with_an_alias_comes_back() -> None:
    found = of(lowest_of(Renamed, 2.5), [row(0), row(1)])
    assert [one["share"] for one in found] == [None, 2.5]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (InfiniteModel, None, "`lowest` comes back as None, and was inf; a model keeps it with"),
        (Excluding, 2.5, "`lowest` comes back as None, and was 2.5"),
        (Anything, {1: 2}, r"`lowest` comes back as \{'1': 2\}, and was \{1: 2\}"),
        (Anything, [(1, 2)], r"`lowest` comes back as \[\[1, 2\]\], and was \[\(1, 2\)\]"),
        (Latest, deque([1.0], maxlen=3), r"comes back as deque\(\[1.0\]\), and was .*maxlen=3"),
        (Least, defaultdict(lambda: math.inf), "comes back as defaultdict.*'float'"),
        (Moment, at(0).astimezone(VIENNA), "tzinfo=TzInfo.7200.*, and was .*Europe/Vienna"),
        (Clock, time(12, tzinfo=VIENNA), r"comes back as .*time\(12, 0\), and was .*Europe/Vienna"),
        (Named, Light.RED, "`lowest` comes back as 'red', and was <Light.RED: 'red'>"),
        (Many, {Light.RED}, "`lowest` comes back as {'red'}, and was {<Light.RED: 'red'>}"),
        (ByName, {Light.RED: 1}, "`lowest` comes back as {'red': 1}, and was {<Light.RED: 'red'>"),
    ],
)
def test_what_json_loses_of_a_state_is_a_verdict(kind: type[Any], value: Any, said: str) -> None:
    with pytest.raises(FoldFailed, match=said):
        of(lowest_of(kind, value), [row(0), row(1)])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Moment, at(0)),
        (Moment, at(0).astimezone(timezone(GAP))),
        (Moment, at(0).astimezone(ZoneInfo("UTC"))),
        (Moment, datetime(2026, 7, 1)),
        (Clock, time(12, tzinfo=UTC)),
        (Least, defaultdict(float, a=math.nan)),
        (Latest, deque([math.nan])),
        (Colour, Light.RED),
        (Many, {"red"}),
        (ByName, {"red": 1}),
        # What says Sequence is read as either.
        (Newest, (1.0, 2.0)),
    ],
)
def test_what_comes_back_as_it_was_is_a_state(kind: type[Any], value: Any) -> None:
    assert len(of(lowest_of(kind, value), [row(0)], {"share": "array<double>"})) == 1


def test_a_field_that_nobody_can_give_is_no_state() -> None:
    @dataclass
    class Given:
        lowest: float = field(default=0.0, init=False)

    with pytest.raises(PipelineInvalid, match=r"`Given.lowest` has `init=False`"):
        of(lowest_of(Given), [row(0)])


def test_the_declared_order_decides_among_rows_of_one_time_and_then_all_columns() -> None:
    class Order(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> list[Row]:
            state.seen.append(row["amount"])
            return []

        def on_timeout(self, state: Tally) -> list[Row]:
            return [{"seen": state.seen}]

    rows = [{**row(0, n), "rank": -n} for n in (2, 1, 3)]
    emits = {"seen": "array<long>"}
    (by_amount,) = of(Order, rows, emits)
    (by_rank,) = of(Order, rows, emits, order_by=["rank"])
    assert (by_amount["seen"], by_rank["seen"]) == ([1, 2, 3], [3, 2, 1])
    assert by_amount["rows"] == 3


def test_an_output_is_taken_as_it_is_when_it_is_yielded() -> None:
    class Clearing(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
            state.seen.append(row["amount"])
            yield {"seen": state.seen}
            state.seen.clear()

        def on_timeout(self, state: Tally) -> list[Row]:
            return []

    (found,) = of(Clearing, [row(0, 7)], {"seen": "array<long>"})
    assert found["seen"] == [7]


def test_a_step_that_changes_its_row_is_deterministic_all_the_same() -> None:
    class Popping(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
            yield {"share": float(row["parts"]["a"].pop())}

        def on_timeout(self, state: Tally) -> list[Row]:
            return []

    parts = {"a": [1, 2, 3]}
    (found,) = of(Popping, [{**row(0), "parts": parts}])
    assert (found["share"], parts) == (3.0, {"a": [1, 2, 3]})


# The kit for tests.


def test_the_kit_names_the_line_and_keeps_the_traceback() -> None:
    line = r"test_folding.py:\d+: `yield .*row\[.amount.\]"
    with pytest.raises(FoldFailed, match=line) as found:
        of(Dividing, [row(0, 0)])
    assert isinstance(found.value.__cause__, ZeroDivisionError)
    last = found.value.__cause__.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    assert last
    assert last.tb_frame.f_code.co_name == "step"


def test_the_kit_takes_several_keys() -> None:
    keys = [("a", 1), ("a", 2), ("a", 1), (None, 1)]
    rows = [{**row(minute), "key": key, "part": part} for minute, (key, part) in enumerate(keys)]
    found = of(Dividing, rows, key=["key", "part"])
    ended = {(one["key"], one["part"]): one["share"] for one in found if one["share"] < 12}
    assert ended == {("a", 1): 2.0, ("a", 2): 1.0, (None, 1): 1.0}


@pytest.mark.slow
def test_the_kit_loads_a_class_s_modules_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "based.py").write_text(BASED)
    (tmp_path / "weights.py").write_text(WEIGHTS)
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("based").Thirds
    rows = [row(0), row(1), {**row(20), "key": "b"}, {**row(21), "key": "b"}]
    emits = folds().fold.emits
    assert len(of(kind, rows[:2], emits, key="key")) == 1
    with pytest.raises(FoldFailed, match="is not deterministic"):
        of(kind, rows, emits, key="key")


# Classes that are no folds, and modules.


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("def on_timeout", "def at_timeout", "lacks the method `on_timeout`"),
        (") -> Seen:", "):", "says that it returns nothing"),
        (") -> Seen:", ") -> int:", "says that it returns `int`"),
        ("from weights", "from no_such_module", "cannot be imported: ModuleNotFoundError"),
        ("class Thirds:", "class Other:", "has no class `Thirds`"),
    ],
)
def test_what_is_no_fold_is_said_in_plain_words(before: str, after: str, said: str) -> None:
    code = {FILE: SOURCE.replace(before, after), "folds/weights.py": WEIGHTS}
    with pytest.raises(PipelineInvalid, match=said):
        load_fold(f"{FILE}:Thirds", code)


def test_two_versions_of_a_module_of_one_name_live_beside_each_other() -> None:
    one = load_fold(f"{FILE}:Thirds", {FILE: SOURCE, "folds/weights.py": WEIGHTS})
    other_weights = "def weight(row):\n    return 0\n"
    other = load_fold(f"{FILE}:Thirds", {FILE: SOURCE, "folds/weights.py": other_weights})
    results = []
    for kind in (one, other):
        state = kind().start()
        list(kind().step(state, row(5)))
        results.append(state.mixed)
    assert results == [6, 0]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (T.DoubleType(), "is a float or a double"),
        (T.ArrayType(T.StringType()), "is an array, a map or a struct"),
        (T.StructType([T.StructField("K", T.StringType())]), "is an array, a map or a struct"),
    ],
)
def test_a_derived_key_of_which_spark_finds_that_it_can_be_none_is_refused(
    kind: T.DataType, said: str
) -> None:
    bronze: Any = SimpleNamespace(schema=T.StructType([T.StructField("key", kind)]))
    with pytest.raises(PipelineInvalid, match=f"`key`, {said}"):
        StreamedFolds(Folds("at", folds())).columns({"bronze": bronze})


def test_a_row_has_the_columns_of_the_file_also_where_bronze_lacks_them_yet() -> None:
    table = folds(order_by=["later"]).model_dump(exclude={"code"}, exclude_defaults=True)
    columns = {"at": "timestamp", "key": "string", "later": "long"}
    source = {**clicks()["source"], "columns": columns, "derive": {"half": "later / 2"}}
    pipeline = pipeline_from_mapping("clicks", clicks(source=source, tables={"t": table}))
    found = Folds.of(pipeline, pipeline.tables["t"]).spec(["_file", "key", "former", "at"])
    assert found.columns == ("later", "at", "former", "half", "key")


# Values.


def test_values_are_the_same_whoever_brings_them() -> None:
    naive = datetime(2026, 7, 1, 12)
    assert plain(naive) == naive.replace(tzinfo=UTC)
    assert plain([bytearray(b"x"), {"a": naive}]) == [b"x", {"a": naive.replace(tzinfo=UTC)}]


NESTED = pa.struct(
    [("m", pa.map_(pa.string(), pa.list_(pa.map_(pa.int64(), pa.float64())))), ("a", pa.int32())]
)


def test_maps_are_read_by_their_type_wherever_they_lie() -> None:
    """Arrow gives them as lists of pairs, as the engine hands them over."""
    value = {"m": [("x", [[(1, 0.5)], None]), ("y", [])], "a": None}
    read = reader(pa.list_(NESTED))
    assert read([value, None]) == [{"m": {"x": [{1: 0.5}, None], "y": []}, "a": None}, None]
    column = pa.array([[value]], pa.list_(NESTED))
    assert read(column[0].as_py()) == read([value])
    by_list = reader(pa.map_(pa.list_(pa.int64()), pa.int64()))
    assert by_list([([2], 1), ([1], 2)]) == [([1], 2), ([2], 1)]


@given(st.lists(st.one_of(st.none(), st.floats()), min_size=2))
def test_any_values_of_a_column_can_be_ordered(values: list[float | None]) -> None:
    found = sorted(values, key=ordered)
    assert found[: values.count(None)] == [None] * values.count(None)


BY_STRUCT = pa.map_(pa.struct([("a", pa.int64())]), pa.int64())
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [False, True],
    pa.binary(): [b"a", b"b"],
    pa.decimal128(9, 2): [Decimal("1.10"), Decimal("2.00")],
    pa.date32(): [date(2026, 7, 1), date(2026, 7, 2)],
    pa.timestamp("us"): [at(0), at(1)],
    pa.struct([("a", pa.int64()), ("b", pa.bool_())]): [{"a": 1, "b": None}, {"a": 1, "b": True}],
    pa.map_(pa.string(), pa.list_(pa.float64())): [
        {"a": None},
        {"a": [None]},
        {"a": [1.0], "b": []},
    ],
    BY_STRUCT: [[({"a": 1}, None)], [({"a": 1}, 2)], [({"a": 2}, 1)], []],
    pa.list_(BY_STRUCT): [[None], [[({"a": 1}, 1)]], [[({"a": 2}, 1)]]],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_of_every_kind_have_one_order(kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array([*VALUES[kind], None], kind)])
    values = [value for (value,) in read_rows([column])]
    found = sorted(values, key=ordered)
    assert found[0] is None
    values.reverse()
    assert sorted(values, key=ordered) == found


def test_a_step_may_change_a_map_s_keys_in_its_row() -> None:
    class Taking(Dividing):
        def step(self, state: Tally, row: Mapping[str, Any]) -> Iterator[Row]:
            yield {"share": float(sum(key.pop("a") for key, _ in row["amount"]))}

        def on_timeout(self, state: Tally) -> list[Row]:
            return []

    values = read_rows([pa.chunked_array([pa.array(VALUES[BY_STRUCT], BY_STRUCT)])])
    rows = [HeldRow(0, value) for value in values]
    asked = spec(given=Taking, emits=SHARE, columns=("amount",))
    assert [output.values for output in folded_twice(asked, rows, None)] == [
        (0.0,), (1.0,), (1.0,), (2.0,)
    ]  # fmt: skip


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), min_size=2), st.randoms())
def test_the_order_of_values_is_the_same_however_they_arrive(
    values: list[float | None], draw: random.Random
) -> None:
    values = [*values, 0.0, -0.0]
    found = sorted(values, key=ordered)
    draw.shuffle(values)
    assert repr(sorted(values, key=ordered)) == repr(found)


def test_a_map_s_entries_are_in_the_order_of_their_keys() -> None:
    read = reader(pa.map_(pa.string(), pa.int64()))
    assert list(read([("b", 1), ("a", 2)]).items()) == [("a", 2), ("b", 1)]


def test_an_episode_whose_second_fold_differs_is_a_verdict_and_the_others_stand() -> None:
    source = SOURCE.replace(
        "        state.rows += 1\n",
        "        state.rows += 1\n"
        "        if row['amount'] == 9:\n"
        "            import random\n"
        "            state.mixed = random.randrange(10**6)\n",
    )
    code = {FILE: source, "folds/weights.py": WEIGHTS}
    rows = [row(0), row(1), row(20, 9), row(21)]
    first, second = folded_twice(spec(code=code), held(rows), None)
    assert (first.number, first.failure) == (1, None)
    assert second.number == 0
    assert "is not deterministic" in str(second.failure)
