"""Each expectation × each type of gold × nulls, held to plain Python's fractions and sets."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.pipeline.checks import Check
from tidemark.pipeline.expectations import EXPECTED, expectation_faults
from tidemark.quality.expectations import judge_expectations
from tidemark.quality.planned_rows import ROWS, PlannedRows
from tidemark.quality.verdicts import CheckVerdict
from tidemark.storage.arrow_kinds import kinds_of

Value = Any
Strategy = st.SearchStrategy[Any]


def whole(bits: int) -> Strategy:
    edge = 2 ** (bits - 1)
    return st.integers(-3, 3) | st.sampled_from([-edge, edge - 1, edge - 2])


def of_digits(digits: int, scale: int) -> Strategy:
    units = st.integers(-4, 4) | st.sampled_from([10**digits - 1, 1 - 10**digits, 1000, 2000])
    return units.map(lambda number: Decimal(f"{number}E-{scale}"))


def single(value: float) -> float:
    """The same in single precision."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


FLOATS = st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 0.30000000000000004, 1.0, 1e16, -1e16, 1e-300])
NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf])
DAYS = st.integers(0, 3).map(lambda days: date(2026, 1, 30) + timedelta(days))
TIMES = st.integers(0, 3).map(
    lambda n: datetime(2026, 1, 31, 23, 59, 59, 999_998, UTC) + timedelta(microseconds=n)
)
TYPES: dict[str, tuple[pa.DataType, Strategy]] = {
    "tinyint": (pa.int8(), whole(8)),
    "smallint": (pa.int16(), whole(16)),
    "int": (pa.int32(), whole(32)),
    "bigint": (pa.int64(), whole(64)),
    "decimal(10,4)": (pa.decimal128(10, 4), of_digits(10, 4)),
    "decimal(38,0)": (pa.decimal128(38, 0), of_digits(38, 0)),
    "decimal(38,38)": (pa.decimal128(38, 38), of_digits(38, 38)),
    "float": (pa.float32(), FLOATS.map(single) | NOT_FINITE),
    "double": (pa.float64(), FLOATS | NOT_FINITE),
    "text": (pa.string(), st.sampled_from(["", "a", "A", "ab", "é", "𝄞", "it's", "\n", "b\0"])),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us", "UTC"), TIMES),
    "binary": (pa.binary(), st.sampled_from([b"", b"a", b"\xff"])),
    "array": (pa.list_(pa.int64()), st.sampled_from([[], [1], [1, None]])),
}
FLOATING = ["float", "double"]
EXACT = [name for name in TYPES if "int" in name or "decimal" in name]
NUMBERS = [*EXACT, *FLOATING]
TEXTS, NESTED = ["text"], ["array"]
ORDERED = [*NUMBERS, "text", "date", "timestamp"]
VALUES = [*ORDERED, "boolean"]
KEYS = [name for name in TYPES if name not in NESTED]


def written(kind: str) -> Strategy:
    """Values as a pipeline's file can say them for a column of this type: its own, their
    neighbours, and such as no value of it can be."""
    _, values = TYPES[kind]
    if kind in NUMBERS:
        others = st.sampled_from([0, 0.3, 0.1, 0.15, 0.30000000000000004, 1e300, -1e300, 10**40])
        finite = values.filter(math.isfinite).map(
            lambda value: float(value) if isinstance(value, Decimal) else value
        )
        return others | finite | st.integers(-3, 3)
    if kind == "date":
        return values.map(str)
    return (
        values.map(lambda value: f"{value:%Y-%m-%d %H:%M:%S.%fZ}")
        if kind == "timestamp"
        else values
    )


def meant(kind: str, text: Value) -> Value:
    """What is written, to be compared with values of the type by `order`."""
    if kind == "float":
        return Fraction(single(text)) if abs(text) < 3.4e38 else Fraction(text)
    if kind in NUMBERS:
        return Fraction(text) if kind == "double" else Fraction(str(text))
    if kind == "date":
        return date.fromisoformat(text)
    return datetime.fromisoformat(text) if kind == "timestamp" else text


def order(value: Value) -> Value:
    """A value by which it is compared: exact; NaN is the largest number, as in Spark."""
    if isinstance(value, float) and not math.isfinite(value):
        rank = math.inf if math.isnan(value) or value > 0 else -math.inf
        return (rank, math.isnan(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal | Fraction):
        return (Fraction(value), False)
    return tuple(value) if isinstance(value, list) else value


def within(value: Value, kind: str, asked: Mapping[str, Any]) -> bool:
    """Of a value, or of a figure, that is there."""
    found = order(value)
    if (low := asked.get("min_value")) is not None:
        edge = order(meant(kind, low))
        if found < edge or (asked.get("strict_min") and found == edge):
            return False
    if (high := asked.get("max_value")) is not None:
        edge = order(meant(kind, high))
        if found > edge or (asked.get("strict_max") and found == edge):
            return False
    return True


@contextmanager
def planned(columns: Mapping[str, pa.Array[Any]], *checks: Check) -> Iterator[PlannedRows]:
    rows = pa.table(dict(columns))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", rows)
        connection.execute(f"CREATE TEMP VIEW {ROWS} AS FROM given")
        table = SimpleNamespace(checks=checks)
        operator: Any = SimpleNamespace(table=table, identity=("k",))
        plan: Any = None
        yield PlannedRows("t", operator, plan, rows.schema, connection)


def judge(
    columns: Mapping[str, pa.Array[Any]], name: str, asked: dict[str, Any], where: str | None = None
) -> CheckVerdict:
    """The verdict on one expectation over these columns, beside the key `k` of each row."""
    number = len(next(iter(columns.values())))
    keyed = {"k": pa.array(range(number), pa.int64()), **columns}
    kinds = kinds_of(pa.table(keyed).schema)
    assert list(expectation_faults(name, asked, kinds)) == [], "validate lets it through"
    with planned(keyed, Check(fail={name: asked}, where=where)) as rows:
        (told,) = judge_expectations(rows)
    return told.verdicts[0]


@st.composite
def columns_of(draw: st.DrawFn, kinds: list[str]) -> tuple[str, list[Value], pa.Array[Any]]:
    kind = draw(st.sampled_from(kinds))
    of, values = TYPES[kind]
    found = draw(st.lists(st.none() | values, min_size=1, max_size=6))
    return kind, found, pa.array(found, of)


@st.composite
def bounds(draw: st.DrawFn, values: Strategy) -> dict[str, Any]:
    told = draw(st.fixed_dictionaries({}, optional={"min_value": values, "max_value": values}))
    told = told or {"min_value": draw(values)}
    flags = {"strict_min": st.booleans(), "strict_max": st.booleans()}
    return {**told, **draw(st.fixed_dictionaries({}, optional=flags))}


MOSTLY: Strategy = st.sampled_from(
    [{}, {"mostly": 0.5}, {"mostly": 0.3}, {"mostly": 1}, {"mostly": 0}]
)


def held(told: CheckVerdict, considered: int, bad: list[int], asked: Mapping[str, Any]) -> None:
    """What is told of each row is right, and names the keys of rows that are bad."""
    assert told.unexpected == len(bad), told.observed
    assert told.passed == (
        considered - len(bad) >= Fraction(str(asked.get("mostly", 1))) * considered
    )
    named = [row["k"] for row in told.examples]
    assert len(named) == min(len(bad), 10)
    assert set(named) <= set(bad)


# Of each value: which types, arguments, and what is good.
Good = Callable[[Value, str, Mapping[str, Any], list[Value]], bool]
PATTERNS = ["^a", "a|b", "^$", "é", "[[:upper:]]", "(?i)A", "."]


def in_set(value: Value, kind: str, asked: Mapping[str, Any]) -> bool:
    return order(value) in [order(meant(kind, one)) for one in asked["value_set"]]


def some(values: Strategy) -> Strategy:
    return st.lists(values, min_size=1, max_size=3)


def fits(value: str, patterns: list[str], every: bool) -> bool:
    words = {"[[:upper:]]": "[A-Z]", "^$": r"\A\Z"}
    found = [re.search(words.get(one, one), value) is not None for one in patterns]
    return all(found) if every else any(found)


LENGTHS = st.integers(0, 3)
OF_VALUES: dict[str, tuple[list[str], Callable[[str], Strategy], Good]] = {
    "ExpectColumnValuesToBeBetween": (
        ORDERED,
        lambda kind: bounds(written(kind)),
        lambda value, kind, asked, all_of: within(value, kind, asked),
    ),
    "ExpectColumnValuesToBeInSet": (
        VALUES,
        lambda kind: st.fixed_dictionaries({"value_set": some(written(kind))}),
        lambda value, kind, asked, all_of: in_set(value, kind, asked),
    ),
    "ExpectColumnValuesToNotBeInSet": (
        VALUES,
        lambda kind: st.fixed_dictionaries({"value_set": some(written(kind))}),
        lambda value, kind, asked, all_of: not in_set(value, kind, asked),
    ),
    "ExpectColumnValuesToBeUnique": (
        KEYS,
        lambda kind: st.just({}),
        lambda value, kind, asked, all_of: [order(one) for one in all_of].count(order(value)) == 1,
    ),
    "ExpectColumnValueLengthsToBeBetween": (
        TEXTS,
        lambda kind: bounds(LENGTHS | st.just(0.5)),
        lambda value, kind, asked, all_of: within(len(value), "bigint", asked),
    ),
    "ExpectColumnValueLengthsToEqual": (
        TEXTS,
        lambda kind: st.fixed_dictionaries({"value": LENGTHS}),
        lambda value, kind, asked, all_of: len(value) == asked["value"],
    ),
    "ExpectColumnValuesToMatchRegex": (
        TEXTS,
        lambda kind: st.fixed_dictionaries({"regex": st.sampled_from(PATTERNS)}),
        lambda value, kind, asked, all_of: fits(value, [asked["regex"]], every=True),
    ),
    "ExpectColumnValuesToNotMatchRegex": (
        TEXTS,
        lambda kind: st.fixed_dictionaries({"regex": st.sampled_from(PATTERNS)}),
        lambda value, kind, asked, all_of: not fits(value, [asked["regex"]], every=True),
    ),
    "ExpectColumnValuesToMatchRegexList": (
        TEXTS,
        lambda kind: st.fixed_dictionaries(
            {"regex_list": some(st.sampled_from(PATTERNS))},
            optional={"match_on": st.sampled_from(["any", "all"])},
        ),
        lambda value, kind, asked, all_of: fits(
            value, asked["regex_list"], every=asked.get("match_on") == "all"
        ),
    ),
    "ExpectColumnValuesToNotMatchRegexList": (
        TEXTS,
        lambda kind: st.fixed_dictionaries({"regex_list": some(st.sampled_from(PATTERNS))}),
        lambda value, kind, asked, all_of: not fits(value, asked["regex_list"], every=False),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(OF_VALUES))
@given(draw=st.data())
def test_what_is_said_of_values_is_right_for_each_type(name: str, draw: st.DataObject) -> None:
    kinds, arguments, good = OF_VALUES[name]
    kind, found, column = draw.draw(columns_of(kinds))
    asked = {"column": "c", **draw.draw(arguments(kind)), **draw.draw(MOSTLY)}
    told = judge({"c": column}, name, asked)
    values = [value for value in found if value is not None]
    bad = [
        key
        for key, value in enumerate(found)
        if value is not None and not good(value, kind, asked, values)
    ]
    held(told, len(values), bad, asked)


@pytest.mark.slow
@pytest.mark.parametrize("null", [True, False])
@given(given_column=columns_of(list(TYPES)), mostly=MOSTLY)
def test_null_is_found_in_each_type(
    null: bool, given_column: tuple[str, list[Value], pa.Array[Any]], mostly: dict[str, Any]
) -> None:
    _, found, column = given_column
    name = "ExpectColumnValuesToBeNull" if null else "ExpectColumnValuesToNotBeNull"
    told = judge({"c": column}, name, {"column": "c", **mostly})
    bad = [key for key, value in enumerate(found) if (value is None) != null]
    held(told, len(found), bad, mostly)


def total(values: list[Value]) -> Fraction | None:
    return sum((Fraction(one) for one in values), Fraction()) if values else None


def mean(values: list[Value]) -> Fraction | None:
    whole_of = total(values)
    return None if whole_of is None else whole_of / len(values)


def median(values: list[Value]) -> Fraction | None:
    ranked = sorted(values, key=order)
    middle = ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]
    return mean(middle)


FIGURES: dict[str, Callable[[list[Value]], Fraction | None]] = {
    "ExpectColumnSumToBeBetween": total,
    "ExpectColumnMeanToBeBetween": mean,
    "ExpectColumnMedianToBeBetween": median,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FIGURES))
@given(draw=st.data())
def test_a_figure_of_numbers_is_exact(name: str, draw: st.DataObject) -> None:
    kind, found, column = draw.draw(columns_of(NUMBERS))
    values = [value for value in found if value is not None]
    figure = try_figure(FIGURES[name], values)
    near = st.just(float(figure)) if isinstance(figure, Fraction) else st.nothing()
    asked = {"column": "c", **draw.draw(bounds(written(kind) | near))}
    told = judge({"c": column}, name, asked)
    if figure == "nobody can tell":
        assert (told.passed, told.observed[:15]) == (False, "nobody can tell")
    elif figure is None:
        assert (told.passed, told.observed) == (False, "no value")
    elif kind in FLOATING:
        assert told.passed == within(float(figure), "double", asked), told.observed
    else:
        assert told.passed == within(figure, kind, asked), told.observed


def try_figure(
    tell: Callable[[list[Value]], Fraction | None], values: list[Value]
) -> Fraction | str | None:
    try:
        return tell(values)
    except (ValueError, OverflowError):
        return "nobody can tell"


@pytest.mark.slow
@given(draw=st.data())
def test_a_deviation_keeps_a_bound_where_its_square_keeps_the_square(draw: st.DataObject) -> None:
    _, found, column = draw.draw(columns_of(EXACT))
    values = [Fraction(value) for value in found if value is not None]
    high = draw.draw(st.sampled_from([0, 0.5, 1, 0.0001, 2, 1e38, 1.4142135623730951]))
    asked = {"column": "c", "max_value": high, "strict_max": draw.draw(st.booleans())}
    told = judge({"c": column}, "ExpectColumnStdevToBeBetween", asked)
    if len(values) < 2:
        assert (told.passed, told.observed) == (False, "no value")
        return
    center = sum(values, Fraction()) / len(values)
    square = sum(((one - center) ** 2 for one in values), Fraction()) / (len(values) - 1)
    limit = Fraction(str(high)) ** 2
    assert told.passed == (square < limit if asked["strict_max"] else square <= limit)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ExpectColumnMaxToBeBetween", "ExpectColumnMinToBeBetween"])
@given(draw=st.data())
def test_the_largest_and_the_smallest_are_those_of_the_type(name: str, draw: st.DataObject) -> None:
    kind, found, column = draw.draw(columns_of(ORDERED))
    asked = {"column": "c", **draw.draw(bounds(written(kind)))}
    told = judge({"c": column}, name, asked)
    values = sorted((value for value in found if value is not None), key=order)
    if not values:
        assert (told.passed, told.observed) == (False, "no value")
    else:
        assert told.passed == within(values[-1 if "Max" in name else 0], kind, asked), told.observed


COUNTS: dict[str, tuple[list[str], Callable[[list[Value]], Fraction | None]]] = {
    "ExpectColumnUniqueValueCountToBeBetween": (
        KEYS,
        lambda found: Fraction(len({order(one) for one in found if one is not None})),
    ),
    "ExpectColumnProportionOfUniqueValuesToBeBetween": (
        KEYS,
        lambda found: (
            Fraction(len({order(one) for one in found if one is not None}), number)
            if (number := sum(one is not None for one in found))
            else None
        ),
    ),
    "ExpectColumnProportionOfNonNullValuesToBeBetween": (
        list(TYPES),
        lambda found: Fraction(sum(one is not None for one in found), len(found)),
    ),
    "ExpectTableRowCountToBeBetween": (["int"], lambda found: Fraction(len(found))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(COUNTS))
@given(draw=st.data())
def test_what_is_counted_is_right_for_each_type(name: str, draw: st.DataObject) -> None:
    kinds, tell = COUNTS[name]
    _, found, column = draw.draw(columns_of(kinds))
    edges = st.sampled_from([0, 1, 2, 3, 0.5, 0.25, 0.2, 0.3333333333333333, 0.6666666666666666])
    asked = draw.draw(bounds(edges)) | ({} if "Table" in name else {"column": "c"})
    told = judge({"c": column}, name, asked)
    figure = tell(found)
    assert told.passed == (figure is not None and within(figure, "bigint", asked)), told.observed


SETS: dict[str, Callable[[set[Any], set[Any]], bool]] = {
    "ExpectColumnDistinctValuesToBeInSet": lambda seen, listed: seen <= listed,
    "ExpectColumnDistinctValuesToContainSet": lambda seen, listed: seen >= listed,
    "ExpectColumnDistinctValuesToEqualSet": lambda seen, listed: seen == listed,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SETS))
@given(draw=st.data())
def test_sets_of_values_are_those_of_the_type(name: str, draw: st.DataObject) -> None:
    kind, found, column = draw.draw(columns_of(VALUES))
    own = [value for value in found if value is not None]
    asked = {"column": "c", "value_set": draw.draw(some(written(kind)))}
    told = judge({"c": column}, name, asked)
    listed = {order(meant(kind, one)) for one in asked["value_set"]}
    assert told.passed == SETS[name]({order(one) for one in own}, listed), told.observed


@pytest.mark.slow
@given(draw=st.data())
def test_the_most_common_value_is_that_of_the_type(draw: st.DataObject) -> None:
    kind, found, column = draw.draw(columns_of(VALUES))
    asked = {"column": "c", "value_set": draw.draw(some(written(kind)))}
    asked |= draw.draw(st.sampled_from([{}, {"ties_okay": True}]))
    told = judge({"c": column}, "ExpectColumnMostCommonValueToBeInSet", asked)
    times = Counter(order(value) for value in found if value is not None)
    most = {value for value, number in times.items() if number == max(times.values())}
    listed = {order(meant(kind, one)) for one in asked["value_set"]}
    expected = bool(most & listed) if "ties_okay" in asked else len(most) == 1 and most <= listed
    assert told.passed == expected, told.observed


IGNORED = ["both_values_are_missing", "either_value_is_missing", "neither"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ExpectColumnPairValuesAToBeGreaterThanB", "ExpectColumnPairValuesToBeEqual"]
)
@given(draw=st.data())
def test_two_columns_are_compared_by_their_type(name: str, draw: st.DataObject) -> None:
    kind = draw.draw(st.sampled_from(ORDERED if "Greater" in name else VALUES))
    of, values = TYPES[kind]
    pairs = draw.draw(st.lists(st.tuples(st.none() | values, st.none() | values), min_size=1))
    ignored = draw.draw(st.none() | st.sampled_from(IGNORED))
    asked: dict[str, Any] = {"column_A": "a", "column_B": "b", **draw.draw(MOSTLY)}
    asked |= {"ignore_row_if": ignored} if ignored else {}
    asked |= draw.draw(st.sampled_from([{}, {"or_equal": True}])) if "Greater" in name else {}
    a, b = (pa.array([pair[side] for pair in pairs], of) for side in (0, 1))
    told = judge({"a": a, "b": b}, name, asked)

    def good(one: Value, other: Value) -> bool:
        if one is None or other is None:
            return False
        if "Greater" not in name:
            return bool(order(one) == order(other))
        return bool(
            order(one) > order(other) or (asked.get("or_equal") and order(one) == order(other))
        )

    fewest = {"either_value_is_missing": 2, "neither": 0}.get(str(ignored), 1)
    rows = [key for key, pair in enumerate(pairs) if 2 - pair.count(None) >= fewest]
    held(told, len(rows), [key for key in rows if not good(*pairs[key])], asked)


@pytest.mark.slow
@given(draw=st.data())
def test_rows_that_are_there_twice_are_found(draw: st.DataObject) -> None:
    one, other = (draw.draw(st.sampled_from(KEYS)) for _ in range(2))
    row = st.tuples(*(st.none() | TYPES[kind][1] for kind in (one, other)))
    rows = draw.draw(st.lists(row, min_size=1, max_size=6))
    asked = {"column_list": ["a", "b"], **draw.draw(MOSTLY)}
    a, b = (
        pa.array([values[side] for values in rows], TYPES[kind][0])
        for side, kind in ((0, one), (1, other))
    )
    told = judge({"a": a, "b": b}, "ExpectCompoundColumnsToBeUnique", asked)
    keys = [tuple(None if value is None else order(value) for value in row) for row in rows]
    meant_rows = [key for key, row in enumerate(rows) if row != (None, None)]
    bad = [key for key in meant_rows if keys.count(keys[key]) > 1]
    held(told, len(meant_rows), bad, asked)


def test_rows_for_which_where_is_not_true_are_not_looked_at() -> None:
    columns: dict[str, Any] = {
        "c": pa.array([5, -1, None, -2], pa.int64()),
        "s": pa.array(["x", "y", "x", None]),
    }
    told = judge(columns, "ExpectColumnMinToBeBetween", {"column": "c", "min_value": 0}, "s = 'x'")
    assert (told.passed, told.rows, told.observed) == (True, 2, "5")
    assert told.check == "ExpectColumnMinToBeBetween(column='c', min_value=0) where s = 'x'"
    told = judge(columns, "ExpectTableRowCountToEqual", {"value": 2}, "c < 0")
    assert (told.passed, told.rows) == (True, 2)


def test_a_check_whose_where_is_true_of_no_row_keeps_nothing_back_unless_it_counts_rows() -> None:
    columns: dict[str, Any] = {"c": pa.array([5, None], pa.int64())}
    told = judge(columns, "ExpectColumnMaxToBeBetween", {"column": "c", "min_value": 9}, "c > 5")
    assert (told.passed, told.rows, told.observed) == (True, 0, "no row is looked at")
    told = judge(columns, "ExpectTableRowCountToBeBetween", {"min_value": 1}, "c > 5")
    assert (told.passed, told.observed) == (False, "0")


def test_an_example_that_is_no_finite_number_is_its_text() -> None:
    columns: dict[str, Any] = {"c": pa.array([math.nan, 1.0, math.inf, -math.inf])}
    asked = {"column": "c", "min_value": 0, "max_value": 5}
    told = judge(columns, "ExpectColumnValuesToBeBetween", asked)
    assert [one["c"] for one in told.examples] == ["nan", "inf", "-inf"]
    assert CheckVerdict.model_validate_json(told.model_dump_json()) == told


def test_the_share_of_bad_rows_and_their_number_are_of_the_same_rows() -> None:
    columns: dict[str, Any] = {"c": pa.array([1, 9, 9, None]), "d": pa.array([2, 3, None, None])}
    asked: dict[str, Any] = {"column": "c", "max_value": 5}
    told = judge(columns, "ExpectColumnValuesToBeBetween", asked)
    assert told.observed == "66.67 % unexpected (2 of 3 rows, beside 1 without a value)"
    assert (told.rows, told.unexpected) == (4, 2)
    told = judge(columns, "ExpectColumnValuesToNotBeNull", {"column": "c"})
    assert told.observed == "25 % unexpected (1 of 4 rows)"
    pair = {"column_A": "c", "column_B": "d", "ignore_row_if": "either_value_is_missing"}
    told = judge(columns, "ExpectColumnPairValuesToBeEqual", pair)
    assert told.observed == "100 % unexpected (2 of 2 rows, beside 2 without a value)"


@pytest.mark.parametrize("name", ["v", "V"])
def test_the_most_common_value_is_told_whatever_other_columns_are_named(name: str) -> None:
    columns: dict[str, Any] = {"c": pa.array([1, 1, 2]), name: pa.array([5, 6, 7])}
    asked = {"column": "c", "value_set": [1]}
    told = judge(columns, "ExpectColumnMostCommonValueToBeInSet", asked)
    assert (told.passed, told.observed) == (True, "1")
    told = judge(columns, "ExpectColumnMostCommonValueToBeInSet", asked, f"{name} > 6")
    assert (told.passed, told.observed) == (False, "2")


def test_a_sum_that_gold_holds_exactly_keeps_its_bound() -> None:
    column = pa.array([Decimal("0.1000"), Decimal("0.2000"), None], pa.decimal128(10, 4))
    asked = {"column": "c", "min_value": 0.3, "max_value": 0.3}
    assert judge({"c": column}, "ExpectColumnSumToBeBetween", asked).passed


def test_each_expectation_that_is_taken_is_held_to_python() -> None:
    here = Path(__file__).read_text("utf-8")
    assert [name for name in EXPECTED if f'"{name}"' not in here] == []
