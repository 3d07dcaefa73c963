"""Errors of the engine that an expression of the pipeline file made: no retry will help."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)

from tidemark.errors import ExpressionFailed

# By the SQL standard the first two characters: an error in the data, and in the statement.
_OF_DATA, _OF_STATEMENT = "22", "42"
# The same class has files and tables that are not there, and what one may not do.
_NOT_OF_AN_EXPRESSION = ("DELTA_", "PATH_", "TABLE_", "FILE_", "STATE_STORE_", "STREAMING_")
_OF_PLACES = ("42K03", "42P01", "42501")
# Raised by Java itself too, and have no state then.
_ARITHMETIC = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)


def expression_failure(error: BaseException, happened: str) -> ExpressionFailed | None:
    """An error of the engine as one of an expression, its words first and whole; None where it
    is another. `happened` says what failed, and in which state things are."""
    if (said := said_of_expression(error)) is None:
        return None
    return ExpressionFailed(
        f"{said}\n{happened} Starting again does not help. Correct the expression in the "
        "pipeline's file: `tidemark validate` says whether its tables can follow."
    )


def said_of_expression(error: BaseException) -> str | None:
    """What the engine says of an expression that failed; None where the error is another."""
    for cause in _causes(error):
        if isinstance(cause, PySparkException) and _is_of_expression(cause):
            return _said(cause)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = getattr(cause, "_cause", None) or cause.__cause__


def _is_of_expression(error: PySparkException) -> bool:
    state, condition = error.getSqlState(), error.getCondition() or ""
    if state is None:
        return isinstance(error, _ARITHMETIC)
    if state in _OF_PLACES or condition.startswith(_NOT_OF_AN_EXPRESSION):
        return False
    return state.startswith((_OF_DATA, _OF_STATEMENT))


def _said(error: PySparkException) -> str:
    fragments = [context.fragment() for context in error.getQueryContext()]
    where = "".join(f"\nin `{fragment}`" for fragment in fragments if fragment)
    return f"{error.getMessage() or error}{where}"
