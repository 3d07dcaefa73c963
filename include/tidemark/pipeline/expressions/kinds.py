"""Types of Spark as a translation to DuckDB knows them, and the values that have them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemark.pipeline.expressions.names import KnownName, Scope, known_name

# The whole numbers, by how many digits Spark counts them where they meet a decimal.
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_FLOATING = ("float", "double")
# Some number; which one cannot be told before Spark has planned the table.
_NUMBER = "number"


class Untranslated(Exception):
    """DuckDB would not understand a part, or in another way; the message says why."""


@dataclass(frozen=True)
class Kind:
    """A type of Spark, as far as a translation asks; digits are a decimal's."""

    name: str
    precision: int = 0
    scale: int = 0

    @property
    def is_number(self) -> bool:
        return self.is_whole or self.is_decimal or self.is_floating or self.name == _NUMBER

    @property
    def is_whole(self) -> bool:
        return self.name in DIGITS

    @property
    def is_decimal(self) -> bool:
        return self.name == "decimal"

    @property
    def is_floating(self) -> bool:
        return self.name in _FLOATING

    @property
    def digits(self) -> tuple[int, int]:
        """Digits in all and after the point, of a decimal or of a whole number as one."""
        return (self.precision, self.scale) if self.is_decimal else (DIGITS[self.name], 0)

    def __str__(self) -> str:
        return f"a {self.name}" if self.is_number else self.name


@dataclass(frozen=True)
class Value:
    """A part in DuckDB's words, its type in Spark, and what is written where it is text."""

    sql: exp.Expr
    kind: Kind
    literal: str | None = None


UNKNOWN, NULL, NUMBER = Kind("unknown"), Kind("null"), Kind(_NUMBER)
BOOLEAN, TEXT, BINARY, NESTED = Kind("boolean"), Kind("text"), Kind("binary"), Kind("nested")
DATE, TIMESTAMP, INTERVAL, MONTHS = (
    *(Kind("date"), Kind("timestamp"), Kind("interval"), Kind("months")),
)
INT, BIGINT, DOUBLE = Kind("int"), Kind("bigint"), Kind("double")
TIMES = (DATE.name, TIMESTAMP.name)


def cast(value: exp.Expr, to: str) -> exp.Expr:
    """A strict cast; sqlglot would take Spark's for one that gives null."""
    return exp.Cast(this=value, to=exp.DataType.build(to, dialect="duckdb"))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function by DuckDB's own name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


_KINDS: dict[exp.DType, Kind] = {
    exp.DType.TINYINT: Kind("tinyint"),
    exp.DType.SMALLINT: Kind("smallint"),
    exp.DType.INT: Kind("int"),
    exp.DType.BIGINT: Kind("bigint"),
    exp.DType.FLOAT: Kind("float"),
    exp.DType.DOUBLE: Kind("double"),
    exp.DType.BOOLEAN: BOOLEAN,
    **dict.fromkeys(exp.DataType.TEXT_TYPES, TEXT),
    exp.DType.BINARY: BINARY,
    exp.DType.DATE: DATE,
    **dict.fromkeys((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ), TIMESTAMP),
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    **dict.fromkeys((exp.DType.ARRAY, exp.DType.LIST, exp.DType.STRUCT, exp.DType.MAP), NESTED),
}


def kind_of_type(kind: exp.DataType | None) -> Kind:
    """A type as sqlglot has it; unknown where that is none of these."""
    if kind is None:
        return UNKNOWN
    if kind.this == exp.DType.DECIMAL:
        digits = [int(part.name) for part in kind.expressions] or [10, 0]
        return Kind("decimal", digits[0], digits[1] if len(digits) > 1 else 0)
    return _KINDS.get(kind.this, UNKNOWN)


def kind_of_name(known: KnownName) -> Kind:
    """Of a column as it is declared; of a derived one no more than sqlglot can tell."""
    return _roughly(known.type) if known.derived else kind_of_type(known.type)


def _roughly(kind: exp.DataType | None) -> Kind:
    """Which number or time Spark makes of an expression, sqlglot does not know for sure."""
    found = kind_of_type(kind)
    if found.is_number:
        return NUMBER
    return UNKNOWN if found.name in TIMES else found


def kind_of_measure(root: exp.Expr, scope: Scope) -> Kind:
    """Of an aggregate over columns as Spark types it; of others no more than sqlglot can tell."""
    while isinstance(root, exp.Paren | exp.Filter):
        root = root.this
    if isinstance(root, exp.Count | exp.CountIf | exp.ApproxDistinct):
        return BIGINT
    column = root.this if isinstance(root.this, exp.Column) and not root.this.table else None
    known = known_name(column.name, scope) if column is not None else None
    of = kind_of_name(known) if known else UNKNOWN
    if known and isinstance(root, exp.Min | exp.Max | exp.Mode | exp.ArgMin | exp.ArgMax):
        return of
    if of.is_decimal and isinstance(root, exp.Sum):
        return Kind("decimal", min(of.precision + 10, 38), of.scale)
    if (of.is_whole or of.is_floating) and isinstance(root, exp.Sum | exp.Avg):
        return BIGINT if of.is_whole and isinstance(root, exp.Sum) else DOUBLE
    return _roughly(root.type if isinstance(root.type, exp.DataType) else None)
