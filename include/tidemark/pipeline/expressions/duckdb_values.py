"""Values of a translated expression: DuckDB's words for one, and the type that it has in Spark."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

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
