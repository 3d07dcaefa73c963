"""What an erasure keeps of its condition so that such rows are rejected when they come again."""

from __future__ import annotations

from itertools import product
from math import prod

from pyspark.sql import SparkSession

from tidemark.errors import ErasureRefused
from tidemark.judge.erased import (
    Columns,
    ComparedAs,
    compared_as,
    fingerprint,
    row_digests,
    values_table,
)
from tidemark.judge.kinds import INTEGER_BITS, SimpleKind, kind_of
from tidemark.ledger.erased import Digests
from tidemark.pipeline.expressions.equalities import Value
from tidemark.pipeline.expressions.sql import equalities
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import folded
from tidemark.runs.erased_again import KEY, erased_again
from tidemark.runs.run import Run
from tidemark.streaming.arrow_rows import frame_of

_MOST_DIGESTS = 1_000
_UNTOUCHED = "Nothing was changed."


def digests_to_keep(spark: SparkSession, run: Run, where: str) -> Digests:
    """A digest for each combination of the values that a condition names. ErasureRefused where it
    says more than which values columns have, or cannot be kept; ErasedUntold where former digests
    could not be told by this key."""
    key = run.settings.erasure_key
    if key is None:
        raise ErasureRefused(
            "--reject-again keeps digests that are made with a key, and there is none. "
            f"{_UNTOUCHED} Give one as {KEY}, here and wherever the pipeline runs."
        )
    erased_again(run.pipeline, run.settings, run.warehouse)
    asked = _asked(run.pipeline, where)
    columns: Columns = tuple((name, how) for name, (how, _) in sorted(asked.items()))
    types = {name: run.pipeline.source.columns[name].type for name, _ in columns}
    values = [*product(*(asked[name][1] for name, _ in columns))]
    rows = values_table(types, values)
    # Each equality holds for one value. So if Spark finds the condition true of all of these, which
    # differ, it is true of no other: no text was read otherwise here than there.
    found = frame_of(spark, rows).where(where).distinct().count()
    if found != len(values):
        raise _refused(
            f"of {len(values):,} combinations of its values Spark finds it true of {found:,}"
        )
    secret = key.get_secret_value()
    digests = tuple(sorted(row_digests(secret, columns, rows)))
    return Digests(columns=columns, key=fingerprint(secret), digests=digests)


def _asked(pipeline: Pipeline, where: str) -> dict[str, tuple[ComparedAs, tuple[Value, ...]]]:
    """How each column is compared, and with which values."""
    found, own = equalities(where), pipeline.source.columns
    if found is None:
        raise _refused("it says more than which values columns have")
    asked = {}
    for written, values in found.items():
        name = next((one for one in own if folded(one) == folded(written)), None)
        how = None if name is None else compared_as(own[name].type)
        if name is None or how is None:
            raise _refused(
                f"{written} is no column of the source that holds texts or whole numbers"
            )
        if not all(_fits(own[name].type, one) for one in values):
            raise _refused(f"{name} is {own[name].type}, and is compared with something else")
        asked[name] = (how, values)
    if (number := prod(len(values) for _, values in asked.values())) > _MOST_DIGESTS:
        raise _refused(
            f"it names {number:,} combinations of values, and {_MOST_DIGESTS:,} are taken"
        )
    return asked


def _fits(column_type: str, value: Value) -> bool:
    """Is a value of a column's own type?"""
    kind = kind_of(column_type)
    assert isinstance(kind, SimpleKind)
    if isinstance(value, str):
        return kind.name == "string"
    half = 1 << INTEGER_BITS.get(kind.name, 0) >> 1
    return -half <= value < half


def _refused(why: str) -> ErasureRefused:
    return ErasureRefused(
        "--reject-again takes `COLUMN = VALUE` and `COLUMN IN (VALUE, …)`, and several columns by "
        f"AND. It cannot take this condition: {why}. {_UNTOUCHED} Name the rows so, or leave "
        "--reject-again out."
    )
