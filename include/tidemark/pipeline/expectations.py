"""The expectations that a pipeline file can name, with their arguments: an allow list.

Names and arguments are those of Great Expectations, which writes their pages; what they say of rows
DuckDB tells (`tidemark.quality.expectations`). Taken is what has one exact answer for the types of
its columns. Great Expectations is not imported here, which takes seconds: a Dag file would pay that
at each parse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from sqlglot import exp

from tidemark.pipeline.expressions.in_duckdb import columns_of, in_duckdb
from tidemark.pipeline.expressions.kinds import (
    BINARY,
    DOUBLE,
    NESTED,
    TEXT,
    TIMES,
    UNKNOWN,
    Kind,
    Untranslated,
)
from tidemark.pipeline.expressions.regular_expressions import why_refused
from tidemark.pipeline.expressions.typed_values import check_value, is_number
from tidemark.pipeline.problems import nearest

Kinds = Mapping[str, Kind]
ONE_COLUMN = "column"
COLUMN_LIST = "column_list"
PAIR = ("column_A", "column_B")
# Shown on the page, and nothing else.
FOR_PEOPLE = ("notes", "description")
_BETWEEN = ("min_value", "max_value", "strict_min", "strict_max")
_BOUNDS = ("min_value", "max_value")


@dataclass(frozen=True)
class ExpectationFault:
    """What is wrong: with the class (no argument), or with one of its arguments."""

    argument: str | None
    message: str
    nearest: str | None = None


@dataclass(frozen=True)
class _Types:
    """Which columns an expectation takes, in words and by their types."""

    words: str
    takes: Callable[[Kind], bool]


_ANY = _Types("all columns", lambda kind: True)
_KEYS = _Types("all columns but arrays, maps and structs", lambda kind: kind != NESTED)
_VALUES = _Types(
    "numbers, text, booleans, dates and timestamps", lambda kind: kind not in (NESTED, BINARY)
)
_ORDERED = _Types(
    "numbers, text, dates and timestamps",
    lambda kind: kind.is_number or kind == TEXT or kind.name in TIMES,
)
_NUMBERS = _Types("numbers", lambda kind: kind.is_number)
_TEXTS = _Types("text", lambda kind: kind == TEXT)


@dataclass(frozen=True)
class Expected:
    """What an expectation takes: arguments that it needs and others, columns of these types.

    `bounds` is the type of what is held to `min_value` and `max_value`; None: the column's own.
    """

    types: _Types
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    bounds: Kind | None = DOUBLE


def _of_column(types: _Types, *needs: str, takes: tuple[str, ...] = ()) -> Expected:
    return Expected(types, (ONE_COLUMN, *needs), takes)


_OF_ROWS = {
    "ExpectColumnValuesToBeBetween": Expected(
        _ORDERED, (ONE_COLUMN,), (*_BETWEEN, "mostly"), bounds=None
    ),
    "ExpectColumnValuesToBeInSet": _of_column(_VALUES, "value_set", takes=("mostly",)),
    "ExpectColumnValuesToNotBeInSet": _of_column(_VALUES, "value_set", takes=("mostly",)),
    "ExpectColumnValuesToBeNull": _of_column(_ANY, takes=("mostly",)),
    "ExpectColumnValuesToNotBeNull": _of_column(_ANY, takes=("mostly",)),
    "ExpectColumnValuesToBeUnique": _of_column(_KEYS, takes=("mostly",)),
    "ExpectColumnValueLengthsToBeBetween": _of_column(_TEXTS, takes=(*_BETWEEN, "mostly")),
    "ExpectColumnValueLengthsToEqual": _of_column(_TEXTS, "value", takes=("mostly",)),
    "ExpectColumnValuesToMatchRegex": _of_column(_TEXTS, "regex", takes=("mostly",)),
    "ExpectColumnValuesToNotMatchRegex": _of_column(_TEXTS, "regex", takes=("mostly",)),
    "ExpectColumnValuesToMatchRegexList": _of_column(
        _TEXTS, "regex_list", takes=("match_on", "mostly")
    ),
    "ExpectColumnValuesToNotMatchRegexList": _of_column(_TEXTS, "regex_list", takes=("mostly",)),
    "ExpectColumnPairValuesAToBeGreaterThanB": Expected(
        _ORDERED, PAIR, ("or_equal", "ignore_row_if", "mostly")
    ),
    "ExpectColumnPairValuesToBeEqual": Expected(_VALUES, PAIR, ("ignore_row_if", "mostly")),
    "ExpectCompoundColumnsToBeUnique": Expected(_KEYS, (COLUMN_LIST,), ("ignore_row_if", "mostly")),
}
_OF_ALL = {
    "ExpectColumnMaxToBeBetween": Expected(_ORDERED, (ONE_COLUMN,), _BETWEEN, bounds=None),
    "ExpectColumnMinToBeBetween": Expected(_ORDERED, (ONE_COLUMN,), _BETWEEN, bounds=None),
    "ExpectColumnSumToBeBetween": _of_column(_NUMBERS, takes=_BETWEEN),
    "ExpectColumnMeanToBeBetween": _of_column(_NUMBERS, takes=_BETWEEN),
    "ExpectColumnMedianToBeBetween": _of_column(_NUMBERS, takes=_BETWEEN),
    "ExpectColumnStdevToBeBetween": _of_column(_NUMBERS, takes=_BETWEEN),
    "ExpectColumnUniqueValueCountToBeBetween": _of_column(_KEYS, takes=_BETWEEN),
    "ExpectColumnProportionOfUniqueValuesToBeBetween": _of_column(_KEYS, takes=_BETWEEN),
    "ExpectColumnProportionOfNonNullValuesToBeBetween": _of_column(_ANY, takes=_BETWEEN),
    "ExpectColumnDistinctValuesToBeInSet": _of_column(_VALUES, "value_set"),
    "ExpectColumnDistinctValuesToContainSet": _of_column(_VALUES, "value_set"),
    "ExpectColumnDistinctValuesToEqualSet": _of_column(_VALUES, "value_set"),
    "ExpectColumnMostCommonValueToBeInSet": _of_column(_VALUES, "value_set", takes=("ties_okay",)),
    "ExpectTableRowCountToBeBetween": Expected(_ANY, (), _BETWEEN),
    "ExpectTableRowCountToEqual": Expected(_ANY, ("value",)),
}
EXPECTED: Mapping[str, Expected] = {**_OF_ROWS, **_OF_ALL}

_FIXED = (
    "is not taken, because no run can change what it asks: gold's columns and their types follow "
    "from the pipeline file. Leave it out; for another type write a cast into the measure"
)
_LIKE = "is not taken: write `{severity}: {column} {no}like '{like_pattern}'`"
_DRAWN = (
    "is not taken, because its limits are drawn from the same rows: write the limits, as in "
    "`{severity}: {{ExpectColumnValuesToBeBetween: {{column: {column}, min_value: 0, "
    "max_value: 100}}}}`"
)
_SQL = (
    "is not taken, because it would run SQL of the file: write what holds for a good row, as in "
    "`{severity}: total >= 0`, with `where:` beside it for some rows alone"
)
# What is written instead.
_REFUSED = {
    **dict.fromkeys(
        (
            *("ExpectColumnValuesToBeOfType", "ExpectColumnValuesToBeInTypeList"),
            *("ExpectColumnTypeToBe", "ExpectColumnToExist", "ExpectTableColumnCountToBeBetween"),
            *("ExpectTableColumnCountToEqual", "ExpectTableColumnsToMatchOrderedList"),
            "ExpectTableColumnsToMatchSet",
        ),
        _FIXED,
    ),
    **dict.fromkeys(
        ("ExpectColumnValuesToMatchLikePattern", "ExpectColumnValuesToMatchLikePatternList"),
        _LIKE.replace("{no}", ""),
    ),
    **dict.fromkeys(
        ("ExpectColumnValuesToNotMatchLikePattern", "ExpectColumnValuesToNotMatchLikePatternList"),
        _LIKE.replace("{no}", "not "),
    ),
    **dict.fromkeys(
        (
            *("ExpectColumnValueZScoresToBeLessThan", "ExpectColumnValuesToNotBeOutliers"),
            "ExpectColumnKLDivergenceToBeLessThan",
        ),
        _DRAWN,
    ),
    "ExpectColumnQuantileValuesToBeBetween": (
        "is not taken, because engines disagree on a quantile between two rows: write the share of "
        "rows that has to keep a limit, as in `{severity}: {{ExpectColumnValuesToBeBetween: "
        "{{column: {column}, max_value: 100, mostly: 0.95}}}}`"
    ),
    "ExpectColumnValuesToMatchStrftimeFormat": (
        "is not taken: write the form of the text, as in `{severity}: "
        "{{ExpectColumnValuesToMatchRegex: {{column: {column}, "
        "regex: '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$'}}}}`"
    ),
    "ExpectColumnPairValuesToBeInSet": (
        "is not taken: write `{severity}: ({column_A} = 1 and {column_B} = 2) or ({column_A} = 3 "
        "and {column_B} = 4)` with the pairs"
    ),
    "ExpectSelectColumnValuesToBeUniqueWithinRecord": (
        "is not taken: write `{severity}: {first} <> {second}`, and so for each two columns"
    ),
    "ExpectMulticolumnSumToEqual": (
        "is not taken: write `{severity}: {first} + {second} = {sum_total}` with all columns"
    ),
    "ExpectMulticolumnValuesToBeEqual": (
        "is not taken: write `{severity}: {first} = {second}`, and so for each two columns"
    ),
    **dict.fromkeys(("UnexpectedRowsExpectation", "ExpectQueryResultsToMatchComparison"), _SQL),
    "ExpectTableRowCountToEqualOtherTable": (
        "is not taken, because another table may be at another run: write a number, as in "
        "`{severity}: {{ExpectTableRowCountToBeBetween: {{min_value: 1}}}}`"
    ),
}
_IGNORED_OF_PAIRS = ("both_values_are_missing", "either_value_is_missing", "neither")
_IGNORED_OF_LISTS = ("all_values_are_missing", "any_value_is_missing", "never")


def expectation_faults(
    name: str, arguments: Mapping[str, Any], columns: Kinds, severity: str = "fail"
) -> Iterator[ExpectationFault]:
    """All that is wrong with an expectation over a table of these columns.

    Of a column whose type is unknown nothing is said that depends on it."""
    if find_spec("great_expectations") is None:
        message = (
            "is an expectation of Great Expectations, which is not installed: install the extra "
            "`quality` of tidemark"
        )
        yield ExpectationFault(None, message)
    elif name in _REFUSED:
        yield ExpectationFault(None, _REFUSED[name].format_map(_Named(arguments, severity)))
    elif name not in EXPECTED:
        message = f"is not an expectation that a check can name; there are {len(EXPECTED)}"
        yield ExpectationFault(None, message, nearest(name, EXPECTED))
    else:
        yield from _argument_faults(EXPECTED[name], arguments, columns)


class _Named(dict[str, Any]):
    """An expectation's arguments as they stand in the line that is to be written instead."""

    def __init__(self, arguments: Mapping[str, Any], severity: str) -> None:
        listed = arguments.get("like_pattern_list")
        several = arguments.get(COLUMN_LIST)
        first, second, *_ = [*(several if isinstance(several, list) else []), "a", "b"]
        pattern = listed[0] if isinstance(listed, list) and listed else "a%"
        super().__init__({"like_pattern": pattern, "first": first, "second": second, **arguments})
        self["severity"] = severity

    def __missing__(self, key: str) -> str:
        return key


def _argument_faults(
    expected: Expected, arguments: Mapping[str, Any], columns: Kinds
) -> Iterator[ExpectationFault]:
    allowed = (*expected.needs, *expected.takes, *FOR_PEOPLE)
    for name in arguments:
        if name in ("row_condition", "condition_parser"):
            message = (
                "is not taken, because it would run as code: put the rows that are meant beside "
                "the check, in Spark SQL, as in `where: status = 'final'`"
            )
            yield ExpectationFault(name, message)
        elif name not in allowed:
            message = f"is not an argument of it; allowed: {', '.join(allowed)}"
            yield ExpectationFault(name, message, nearest(name, allowed))
    for name in expected.needs:
        if name not in arguments:
            yield ExpectationFault(name, "is missing")
    if set(_BOUNDS) <= set(expected.takes) and not set(_BOUNDS) & set(arguments):
        yield ExpectationFault(None, "needs min_value or max_value")
    kinds = []
    for name in (ONE_COLUMN, COLUMN_LIST, *PAIR):
        if name in arguments and name in allowed:
            faults = list(_column_faults(name, arguments[name], expected.types, columns))
            yield from faults
            named = arguments[name] if name == COLUMN_LIST else [arguments[name]]
            kinds += [] if faults else [columns[one] for one in named]
    if len(kinds) == 2 and expected.needs == PAIR:
        try:
            compared_pair(arguments, columns, or_equal=None)
        except ValueError as error:
            reason = str(error).partition(" DuckDB: ")[2] or str(error)
            yield ExpectationFault(PAIR[1], f"does not fit: {reason}")
    kind = kinds[0] if kinds else UNKNOWN
    for name in arguments:
        if name in allowed and name in _RULES:
            bound = expected.bounds if name in _BOUNDS else None
            if fault := _fault(name, arguments[name], bound or kind, expected):
                yield ExpectationFault(name, fault)


def _column_faults(
    argument: str, value: Any, types: _Types, columns: Kinds
) -> Iterator[ExpectationFault]:
    if argument == COLUMN_LIST and not (isinstance(value, list) and len(value) > 1):
        yield ExpectationFault(argument, "does not fit: it needs a list of two or more columns")
        return
    for name in value if isinstance(value, list) and argument == COLUMN_LIST else [value]:
        if not isinstance(name, str) or name not in columns:
            message = f"`{name}` is not a column of gold; columns: {', '.join(columns)}"
            yield ExpectationFault(argument, message, nearest(str(name), columns))
        elif columns[name] != UNKNOWN and not types.takes(columns[name]):
            message = f"`{name}` is {columns[name]}; it takes {types.words}"
            yield ExpectationFault(argument, message)


def _fault(name: str, value: Any, kind: Kind, expected: Expected) -> str | None:
    """Why an argument does not fit, for columns of this type."""
    try:
        _RULES[name](value, kind, expected)
    except Untranslated as reason:
        return f"does not fit: it {reason}"
    return None


def _one_of(*allowed: Any) -> Callable[[Any, Kind, Expected], None]:
    def rule(value: Any, kind: Kind, expected: Expected) -> None:
        if not any(type(value) is type(one) and value == one for one in allowed):
            words = ", ".join(str(one).lower() for one in allowed)
            raise Untranslated(f"takes one of {words}, and has {value!r}")

    return rule


def _share(value: Any, kind: Kind, expected: Expected) -> None:
    if not is_number(value) or not 0 <= value <= 1:
        raise Untranslated(f"takes a share from 0 to 1, and has {value!r}")


def _count(value: Any, kind: Kind, expected: Expected) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Untranslated(f"takes a whole number, and has {value!r}")


def _set(value: Any, kind: Kind, expected: Expected) -> None:
    if not isinstance(value, list) or not value:
        raise Untranslated(f"takes a list of values, and has {value!r}")
    for one in value:
        if one is None or isinstance(one, list | dict):
            raise Untranslated(f"takes a list of values, and has {one!r} among them")
        check_value(kind, one)


def _pattern(value: Any, kind: Kind, expected: Expected) -> None:
    if not isinstance(value, str):
        raise Untranslated(f"takes a regular expression, and has {value!r}")
    if refused := why_refused(value):
        raise Untranslated(refused)
    # The engine itself, which is loaded for nothing else here: it knows no look-around, no
    # reference back, and takes time in proportion to the text.
    import duckdb

    with duckdb.connect() as engine:
        try:
            engine.execute("SELECT regexp_matches('', ?)", [value])
        except duckdb.Error as error:
            reason = str(error).partition(": ")[2] or str(error)
            raise Untranslated(f"has a pattern that RE2 cannot read: {reason}") from None


def _patterns(value: Any, kind: Kind, expected: Expected) -> None:
    if not isinstance(value, list) or not value:
        raise Untranslated(f"takes a list of regular expressions, and has {value!r}")
    for one in value:
        _pattern(one, kind, expected)


def _words(value: Any, kind: Kind, expected: Expected) -> None:
    if not isinstance(value, str):
        raise Untranslated(f"takes text, and has {value!r}")


def _ignored(value: Any, kind: Kind, expected: Expected) -> None:
    of_pairs = expected.needs == PAIR
    _one_of(*(_IGNORED_OF_PAIRS if of_pairs else _IGNORED_OF_LISTS))(value, kind, expected)


_RULES: Mapping[str, Callable[[Any, Kind, Expected], None]] = {
    **dict.fromkeys(_BOUNDS, lambda value, kind, _: check_value(kind, value)),
    **dict.fromkeys(("strict_min", "strict_max", "ties_okay", "or_equal"), _one_of(True, False)),
    "mostly": _share,
    "value": _count,
    "value_set": _set,
    "regex": _pattern,
    "regex_list": _patterns,
    "match_on": _one_of("any", "all"),
    "ignore_row_if": _ignored,
    **dict.fromkeys(FOR_PEOPLE, _words),
}


def kind_of_bounds(name: str, column: Kind) -> Kind:
    """The type of what an expectation holds to its bounds."""
    return EXPECTED[name].bounds or column


def compared_pair(arguments: Mapping[str, Any], columns: Kinds, *, or_equal: bool | None) -> str:
    """That the first column of a pair is greater than the second, in DuckDB's words; without
    `or_equal` that both are equal. ValueError where the engines compare such two differently."""
    sign = exp.EQ if or_equal is None else exp.GTE if or_equal else exp.GT
    one, other = (exp.column(exp.to_identifier(arguments[name], quoted=True)) for name in PAIR)
    return in_duckdb(sign(this=one, expression=other), columns_of(columns))
