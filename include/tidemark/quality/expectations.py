"""Expectations over the rows that publish would write, told by DuckDB on gold's own types.

Each is told for itself: one that nobody can tell says so in its verdict and leaves the others
alone. Null is no value: expectations on values pass over it, as Great Expectations has it. Great
Expectations itself makes the pages of the results, and is not loaded here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import duckdb

from tidemark.pipeline.checks import Check
from tidemark.pipeline.expectations import (
    COLUMN_LIST,
    ONE_COLUMN,
    PAIR,
    compared_pair,
    expectation_faults,
    kind_of_bounds,
)
from tidemark.pipeline.expressions.kinds import BIGINT, UNKNOWN, Kind
from tidemark.pipeline.expressions.typed_values import (
    Sign,
    compared,
    equal_to,
    of_column,
    text_literal,
)
from tidemark.quality import exact_numbers
from tidemark.quality.conditions import where_of
from tidemark.quality.planned_rows import ROWS, PlannedRows
from tidemark.quality.verdicts import MOST_EXAMPLES, CheckVerdict, check_name, short
from tidemark.storage.arrow_kinds import kinds_of

_NO_VALUE = "no value"
_IGNORES_ALL = ("both_values_are_missing", "all_values_are_missing")
_IGNORES_ANY = ("either_value_is_missing", "any_value_is_missing")


@dataclass(frozen=True)
class Told:
    """What an expectation says of a table's rows; `found` is the result that its page shows, by the
    names of Great Expectations."""

    name: str
    arguments: Mapping[str, Any]
    passed: bool
    observed: str
    rows: int
    found: Mapping[str, Any]
    examples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class TableExpectations:
    """The verdicts on one table, and what its page is made of."""

    name: str
    verdicts: tuple[CheckVerdict, ...]
    told: tuple[Told, ...]


def judge_expectations(rows: PlannedRows) -> Iterator[TableExpectations]:
    """Judge a table's expectations, where it has any and gets rows: an aggregate of nothing would
    fail where windows only go."""
    checks = [check for check in rows.table.checks if isinstance(check.asked, dict)]
    if not checks or not rows.count(f"SELECT count(*) FROM {ROWS}"):
        return
    judged = list(_each(rows, checks))
    results = tuple(one for _, one in judged if one is not None)
    yield TableExpectations(rows.name, tuple(verdict for verdict, _ in judged), results)


def _each(rows: PlannedRows, checks: list[Check]) -> Iterator[tuple[CheckVerdict, Told | None]]:
    for check in checks:
        details: dict[str, Any] = {
            "table": rows.name,
            "check": check_name(check),
            "severity": check.severity,
        }
        try:
            verdict = _tell(_Asked(rows, check))
        except duckdb.OperationalError:
            raise
        except (duckdb.Error, ValueError, ArithmeticError) as error:
            looked_at = rows.count(f"SELECT count(*) FROM {ROWS}")
            broken = f"nobody can tell: {error}"
            yield CheckVerdict(passed=False, observed=broken, rows=looked_at, **details), None
            continue
        yield (
            CheckVerdict(
                passed=verdict.passed,
                observed=verdict.observed,
                rows=verdict.rows,
                unexpected=verdict.found.get("unexpected_count"),
                examples=verdict.examples,
                **details,
            ),
            verdict,
        )


@dataclass(frozen=True)
class _Asked:
    """One expectation over a table's rows."""

    rows: PlannedRows
    check: Check

    @cached_property
    def name(self) -> str:
        assert isinstance(self.check.asked, dict)
        return next(iter(self.check.asked))

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        assert isinstance(self.check.asked, dict)
        return self.check.asked[self.name]

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        return kinds_of(self.rows.schema)

    @cached_property
    def columns(self) -> list[str]:
        """Those that it names."""
        named = [self.arguments[name] for name in (ONE_COLUMN, *PAIR) if name in self.arguments]
        return [*named, *self.arguments.get(COLUMN_LIST, ())]

    @property
    def kind(self) -> Kind:
        return self.kinds[self.columns[0]]

    @property
    def column(self) -> str:
        """The one column, as it is compared with values."""
        return of_column(_quoted(self.columns[0]), self.kind)

    @cached_property
    def of(self) -> str:
        """The rest of a query over the rows that are meant."""
        return f"FROM {ROWS} WHERE ({where_of(self.check, self.kinds)})"

    def one(self, sql: str) -> tuple[Any, ...]:
        """The one row of a query."""
        (row,) = self.rows.connection.execute(sql).fetchall()
        return tuple(row)

    def bounds(self) -> Iterator[tuple[Sign, Any]]:
        asked = self.arguments
        if asked.get("min_value") is not None:
            yield ">" if asked.get("strict_min") else ">=", asked["min_value"]
        if asked.get("max_value") is not None:
            yield "<" if asked.get("strict_max") else "<=", asked["max_value"]

    def within(self, value: str, kind: Kind) -> str:
        """The condition that a value keeps the bounds, which are of this type."""
        conditions = [compared(value, kind, sign, bound) for sign, bound in self.bounds()]
        return " AND ".join(f"({one})" for one in conditions) or "true"

    def in_set(self, value: str) -> str:
        """The condition that a value of the column is listed."""
        words = [equal_to(self.kind, value) for value in self.arguments["value_set"]]
        listed = ", ".join(sorted({word for word in words if word is not None}))
        return f"{value} IN ({listed})" if listed else "false"


def _tell(asked: _Asked) -> Told:
    faults = expectation_faults(asked.name, asked.arguments, asked.kinds)
    if fault := next(faults, None):
        raise ValueError(f"`{fault.argument or asked.name}` {fault.message}")
    for name in asked.columns:
        if asked.kinds[name] == UNKNOWN:
            raise ValueError(f"`{name}` has a type that no expectation takes")
    if not asked.name.startswith("ExpectTable") and not asked.one(f"SELECT count(*) {asked.of}")[0]:
        # A run without such rows, as a table that gets none, has nothing to be held to.
        return _told(asked, 0, True, "no row is looked at", element_count=0)
    if rule := _RULES.get(asked.name):
        return _by_row(asked, rule(asked))
    return _OF_ALL[asked.name](asked)


def _told(asked: _Asked, rows: int, passed: bool, observed: str, **found: Any) -> Told:
    return Told(asked.name, asked.arguments, passed, observed, rows, found, ())


# Of each row.


@dataclass(frozen=True)
class _Rule:
    """A row that is considered is bad where it is not `good`: false, or nobody can tell. `of_all`:
    that is told by all rows that are considered."""

    considered: str
    good: str
    of_all: bool = False


def _by_row(asked: _Asked, rule: _Rule) -> Told:
    rows, considered = asked.one(f"SELECT count(*), count(*) FILTER ({rule.considered}) {asked.of}")
    keys = asked.rows.keys
    shown = ", ".join(_quoted(name) for name in dict.fromkeys((*keys, *asked.columns)))
    filtered = "QUALIFY" if rule.of_all else "AND"
    bad = f"SELECT {shown} {asked.of} AND ({rule.considered}) {filtered} ({rule.good}) IS NOT TRUE"
    unexpected = asked.rows.count(f"SELECT count(*) FROM ({bad})")
    mostly = Fraction(str(asked.arguments.get("mostly", 1)))
    examples = asked.rows.examples(bad) if unexpected else ()
    share = 100 * unexpected / considered if considered else 0.0
    beside = f", beside {rows - considered:,} without a value" if rows > considered else ""
    return Told(
        asked.name,
        asked.arguments,
        considered - unexpected >= mostly * considered,
        f"{share:.4g} % unexpected ({unexpected:,} of {considered:,} rows{beside})",
        rows,
        _found(asked, rows, considered, unexpected, examples),
        examples,
    )


def _found(
    asked: _Asked,
    rows: int,
    considered: int,
    unexpected: int,
    examples: tuple[dict[str, Any], ...],
) -> dict[str, Any]:
    """A result as Great Expectations writes one of values."""
    missing = rows - considered
    of_considered = 100 * unexpected / considered if considered else 0.0
    return {
        "element_count": rows,
        "missing_count": missing,
        "missing_percent": 100 * missing / rows if rows else 0.0,
        "unexpected_count": unexpected,
        "unexpected_percent": of_considered,
        "unexpected_percent_nonmissing": of_considered,
        "unexpected_percent_total": 100 * unexpected / rows if rows else 0.0,
        "partial_unexpected_list": [_values(asked, row) for row in examples],
        "partial_unexpected_index_list": list(examples),
        "unexpected_index_column_names": list(asked.rows.keys),
    }


def _values(asked: _Asked, row: Mapping[str, Any]) -> Any:
    values = [row[name] for name in asked.columns]
    return values[0] if ONE_COLUMN in asked.arguments else values


def _of_values(good: Callable[[_Asked], str], *, of_all: bool = False) -> Callable[[_Asked], _Rule]:
    """Of the values of one column, without its nulls."""
    return lambda asked: _Rule(f"{_quoted(asked.columns[0])} IS NOT NULL", good(asked), of_all)


def _lengths(asked: _Asked) -> str:
    length = f"CAST(length({asked.column}) AS BIGINT)"
    if "value" in asked.arguments:
        return f"{length} = {asked.arguments['value']}"
    return asked.within(length, BIGINT)


def _matches(asked: _Asked) -> str:
    patterns = asked.arguments.get("regex_list") or [asked.arguments["regex"]]
    all_of_them = asked.arguments.get("match_on", "any") == "all"
    conditions = [
        f"regexp_matches({asked.column}, {text_literal(pattern)})" for pattern in patterns
    ]
    return (" AND " if all_of_them else " OR ").join(conditions)


def _pairs(asked: _Asked, *, or_equal: bool | None) -> _Rule:
    return _Rule(
        _considered(asked, "both_values_are_missing"),
        compared_pair(asked.arguments, asked.kinds, or_equal=or_equal),
    )


def _considered(asked: _Asked, usual: str) -> str:
    """Which rows an expectation on several columns looks at."""
    ignores = asked.arguments.get("ignore_row_if", usual)
    present = [f"{_quoted(name)} IS NOT NULL" for name in asked.columns]
    if ignores in _IGNORES_ALL:
        return " OR ".join(present)
    return " AND ".join(present) if ignores in _IGNORES_ANY else "true"


def _once(asked: _Asked) -> str:
    columns = ", ".join(_quoted(name) for name in asked.columns)
    return f"count(*) OVER (PARTITION BY {columns}) = 1"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


_RULES: Mapping[str, Callable[[_Asked], _Rule]] = {
    "ExpectColumnValuesToBeBetween": _of_values(lambda one: one.within(one.column, one.kind)),
    "ExpectColumnValuesToBeInSet": _of_values(lambda one: one.in_set(one.column)),
    "ExpectColumnValuesToNotBeInSet": _of_values(lambda one: f"NOT ({one.in_set(one.column)})"),
    "ExpectColumnValuesToBeNull": lambda one: _Rule("true", f"{_quoted(one.columns[0])} IS NULL"),
    "ExpectColumnValuesToNotBeNull": lambda one: _Rule(
        "true", f"{_quoted(one.columns[0])} IS NOT NULL"
    ),
    "ExpectColumnValuesToBeUnique": _of_values(_once, of_all=True),
    "ExpectColumnValueLengthsToBeBetween": _of_values(_lengths),
    "ExpectColumnValueLengthsToEqual": _of_values(_lengths),
    "ExpectColumnValuesToMatchRegex": _of_values(_matches),
    "ExpectColumnValuesToNotMatchRegex": _of_values(lambda one: f"NOT ({_matches(one)})"),
    "ExpectColumnValuesToMatchRegexList": _of_values(_matches),
    "ExpectColumnValuesToNotMatchRegexList": _of_values(lambda one: f"NOT ({_matches(one)})"),
    "ExpectColumnPairValuesAToBeGreaterThanB": lambda one: _pairs(
        one, or_equal=bool(one.arguments.get("or_equal"))
    ),
    "ExpectColumnPairValuesToBeEqual": lambda one: _pairs(one, or_equal=None),
    "ExpectCompoundColumnsToBeUnique": lambda one: _Rule(
        _considered(one, "all_values_are_missing"), _once(one), of_all=True
    ),
}


# Of all rows.


def _largest(asked: _Asked) -> Told:
    """The largest or smallest value, whatever its type."""
    aggregate = "max" if "Max" in asked.name else "min"
    value = f"{aggregate}({asked.column})"
    within = asked.within(value, kind_of_bounds(asked.name, asked.kind))
    text, passed, rows = asked.one(
        f"SELECT CAST({aggregate}({_quoted(asked.columns[0])}) AS VARCHAR), "
        f"{value} IS NOT NULL AND {within}, count(*) {asked.of}"
    )
    return _told(asked, rows, passed, _NO_VALUE if text is None else text, observed_value=text)


def _figure(
    tell: Callable[[duckdb.DuckDBPyConnection, str, str], Fraction | None],
) -> Callable[[_Asked], Told]:
    """A figure of a column of numbers."""

    def judged(asked: _Asked) -> Told:
        value = tell(asked.rows.connection, asked.of, _quoted(asked.columns[0]))
        if value is not None and asked.kind.is_floating:
            return _held_to_bounds(asked, float(value))
        return _held_to_bounds(asked, value)

    return judged


def _held_to_bounds(asked: _Asked, value: float | Fraction | None) -> Told:
    rows = asked.one(f"SELECT count(*) {asked.of}")[0]
    observed = _NO_VALUE if value is None else _number_text(value)
    passed = value is not None and all(_keeps(value, sign, bound) for sign, bound in asked.bounds())
    return _told(asked, rows, passed, observed, observed_value=None if value is None else observed)


def _keeps(value: float | Fraction, sign: Sign, bound: float) -> bool:
    """A bound is the decimal that is written; for a double it is the double next to that."""
    edge = Fraction(bound) if isinstance(value, float) else Fraction(str(bound))
    found = Fraction(value)
    return {">=": found >= edge, ">": found > edge, "<=": found <= edge, "<": found < edge}[sign]


def _number_text(value: float | Fraction) -> str:
    if isinstance(value, float):
        return repr(value)
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return f"{exact.normalize():f}" if value.denominator != 1 else str(value.numerator)


def _row_count(asked: _Asked) -> Told:
    rows = asked.one(f"SELECT count(*) {asked.of}")[0]
    if "value" in asked.arguments:
        passed = rows == asked.arguments["value"]
        return _told(asked, rows, passed, f"{rows}", observed_value=rows)
    return _held_to_bounds(asked, Fraction(rows))


def _share(sql: str, *, of_rows: bool | None) -> Callable[[_Asked], Told]:
    """How many there are, as a share of the rows or of the values; or their number."""

    def judged(asked: _Asked) -> Told:
        column = _quoted(asked.columns[0])
        number, rows, values = asked.one(
            f"SELECT {sql.format(column)}, count(*), count({column}) {asked.of}"
        )
        if of_rows is None:
            return _held_to_bounds(asked, Fraction(number))
        whole = rows if of_rows else values
        return _held_to_bounds(asked, Fraction(number, whole) if whole else None)

    return judged


def _distinct(asked: _Asked) -> Told:
    """Which values there are, beside those that are listed."""
    values = f"(SELECT DISTINCT {asked.column} AS v {asked.of} AND {asked.column} IS NOT NULL)"
    (others,) = asked.one(f"SELECT count(*) FROM {values} WHERE NOT ({asked.in_set('v')})")
    listed = {equal_to(asked.kind, value) for value in asked.arguments["value_set"]}
    # A value that the column's type does not have is never there.
    words = ", ".join(f"({word})" for word in sorted(one for one in listed if one is not None))
    (missing,) = (
        asked.one(f"SELECT count(*) FROM (VALUES {words}) AS l(w) WHERE w NOT IN (FROM {values})")
        if words
        else (0,)
    )
    contains = not missing and None not in listed
    passed = {
        "ExpectColumnDistinctValuesToBeInSet": not others,
        "ExpectColumnDistinctValuesToContainSet": contains,
        "ExpectColumnDistinctValuesToEqualSet": contains and not others,
    }[asked.name]
    return _set_told(asked, passed, f"SELECT v FROM {values} ORDER BY v")


def _most_common(asked: _Asked) -> Told:
    # By its place: a column of gold may be named `v`.
    ranked = (
        f"(SELECT {asked.column} AS v {asked.of} AND {asked.column} IS NOT NULL GROUP BY 1 "
        "QUALIFY rank() OVER (ORDER BY count(*) DESC) = 1)"
    )
    number, listed = asked.one(
        f"SELECT count(*), count(*) FILTER ({asked.in_set('v')}) FROM {ranked}"
    )
    ties = asked.arguments.get("ties_okay", False)
    passed = listed > 0 if ties else number == listed == 1
    return _set_told(asked, passed, f"SELECT v FROM {ranked} ORDER BY v")


def _set_told(asked: _Asked, passed: bool, values: str) -> Told:
    rows = asked.one(f"SELECT count(*) {asked.of}")[0]
    # By their own order, which is not that of their texts.
    first = f"SELECT CAST(v AS VARCHAR) FROM ({values} LIMIT {MOST_EXAMPLES})"
    shown = [short(text) for (text,) in asked.rows.connection.execute(first).fetchall()]
    more = [] if len(shown) < MOST_EXAMPLES else ["…"]
    observed = ", ".join([*shown, *more]) or _NO_VALUE
    return _told(asked, rows, passed, observed, observed_value=[*shown, *more])


_OF_ALL: Mapping[str, Callable[[_Asked], Told]] = {
    "ExpectColumnMaxToBeBetween": _largest,
    "ExpectColumnMinToBeBetween": _largest,
    "ExpectColumnSumToBeBetween": _figure(exact_numbers.sum_of),
    "ExpectColumnMeanToBeBetween": _figure(exact_numbers.mean_of),
    "ExpectColumnMedianToBeBetween": _figure(exact_numbers.median_of),
    "ExpectColumnStdevToBeBetween": _figure(exact_numbers.deviation_of),
    "ExpectColumnUniqueValueCountToBeBetween": _share("count(DISTINCT {})", of_rows=None),
    "ExpectColumnProportionOfUniqueValuesToBeBetween": _share("count(DISTINCT {})", of_rows=False),
    "ExpectColumnProportionOfNonNullValuesToBeBetween": _share("count({})", of_rows=True),
    "ExpectColumnDistinctValuesToBeInSet": _distinct,
    "ExpectColumnDistinctValuesToContainSet": _distinct,
    "ExpectColumnDistinctValuesToEqualSet": _distinct,
    "ExpectColumnMostCommonValueToBeInSet": _most_common,
    "ExpectTableRowCountToBeBetween": _row_count,
    "ExpectTableRowCountToEqual": _row_count,
}
