"""Expressions that take more of Java's stack than there is: which one, and on which row.

What a row comes to would depend on the stack that its machine has, and on what the JVM compiled
before. So it is no verdict, and the run ends. The engine says neither the expression nor the row;
both are looked for by evaluating again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import StackExhausted
from tidemark.streaming.cluster.lacking import java_causes
from tidemark.streaming.engine.quiet import quiet

# Which aggregate of some rows an expression is asked for by.
Asked = Callable[[DataFrame], DataFrame]

_SHOWN = 120
# Each halves what is left: rows that look alike fail alike.
_HALVINGS = 40


def is_exhausted(error: BaseException) -> bool:
    """Did it end for lack of stack?"""
    causes = java_causes(error) if isinstance(error, Exception) else []
    return any(cause.startswith("java.lang.StackOverflowError") for cause in causes)


def exhausted(happened: str) -> StackExhausted:
    """The error. `happened` says what failed, as far as it is known, and how things stand."""
    return StackExhausted(
        "java.lang.StackOverflowError: an expression took more stack than there is.\n"
        f"{happened} Starting again does not help. Correct the expression in the pipeline's file "
        "(a shorter text, a pattern without groups that repeat); or who operates the platform "
        "gives Java more stack: `-Xss16m` in spark.driver.extraJavaOptions and "
        "spark.executor.extraJavaOptions of the settings."
    )


def found_exhausting(
    rows: DataFrame,
    asked: Mapping[str, Asked],
    place: Sequence[str],
    read: Mapping[str, Sequence[str]],
) -> str | None:
    """The first of the expressions that exhausts the stack, and on which row: where that comes from
    (the columns of `place`), and the columns that the expression reads. None where none does it
    again. Only reads."""
    with quiet():
        for name, of in asked.items():
            if _exhausts(rows, of):
                return f"{name}, {_on_row(rows, of, place, read[name])}"
    return None


def _exhausts(rows: DataFrame, of: Asked) -> bool:
    """What else is wrong with an expression that is asked for alone is told elsewhere."""
    try:
        of(rows).collect()
    except (PySparkException, Py4JJavaError) as error:
        return is_exhausted(error)
    return False


def _on_row(rows: DataFrame, of: Asked, place: Sequence[str], read: Sequence[str]) -> str:
    """Code that was run often is compiled, and takes less stack: then it may not come again."""
    by = F.xxhash64(*_texts([*place, *read]).values())
    for bits in range(_HALVINGS):
        halves = [rows.where(F.shiftright(by, bits).bitwiseAND(1) == half) for half in (0, 1)]
        smaller = next((half for half in halves if _exhausts(half, of)), None)
        if smaller is None:
            break
        rows = smaller
        if rows.select(by).distinct().limit(2).count() == 1:
            return f"on the row {_shown(rows, place, read)}"
    return f"probably on the row {_shown(rows, place, read)}, which is the longest"


def _shown(rows: DataFrame, place: Sequence[str], read: Sequence[str]) -> str:
    """The row of the longest values that are read: where it is from, and the values, cut."""
    texts = _texts([*place, *read])
    lengths = [F.coalesce(F.length(texts[name]), F.lit(0)) for name in read] or [F.lit(0)]
    longest = rows.orderBy(reduce(Column.__add__, lengths).desc()).limit(1)
    cut = [F.substring(text, 1, _SHOWN).alias(name) for name, text in texts.items()]
    values = longest.select(*cut).collect()[0].asDict()
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _texts(names: Sequence[str]) -> dict[str, Column]:
    return {name: F.col(f"`{name}`").cast("string") for name in names}
