"""What is to be said of a pipeline's folds before there are rows: what every run would refuse, and
what comes out otherwise of the same made rows under another hash seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.folding import NOT_DETERMINISTIC, HeldRow
from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.loaded import load_fold
from tidemark.operators.folds.said import named
from tidemark.operators.folds.seeds import keys_folded_under_seeds
from tidemark.pipeline.fold_types import element_of
from tidemark.pipeline.instants import epoch_us, instant_of
from tidemark.pipeline.model import FoldTable, Pipeline

# Enough that a set of their texts hardly comes in the same order twice.
_ROWS = 24
_MADE: Mapping[str, Callable[[int], Any]] = {
    **dict.fromkeys(("byte", "tinyint", "short", "smallint", "int", "integer"), lambda n: n),
    **dict.fromkeys(("long", "bigint"), lambda n: n * 100),
    **dict.fromkeys(("float", "real", "double"), lambda n: n + 0.5),
    **dict.fromkeys(("decimal", "dec", "numeric"), Decimal),
    "string": lambda n: f"text {n}",
    "boolean": lambda n: n % 3 == 0,
    "binary": lambda n: bytes([n]),
    "date": lambda n: date(2026, 7, 1) + timedelta(days=n),
    "timestamp": lambda n: instant_of(0) + timedelta(minutes=n),
}


def fold_faults(pipeline: Pipeline) -> Iterator[str]:
    """Of each fold that is wrong, what is. Its code is run."""
    for name, table in pipeline.tables.items():
        if not isinstance(table, FoldTable):
            continue
        try:
            load_fold(table.fold.python, table.code)
            failures = _failures(pipeline, table)
        except PipelineInvalid as error:
            failures = [str(error)]
        except ImportError as error:
            failures = [f"what it imports is not there: {named(error)}"]
        yield from (f"{pipeline.name}: tables.{name}.fold.python: {one}" for one in failures)


def _failures(pipeline: Pipeline, table: FoldTable) -> list[str]:
    """What a class raises on made rows is no fault: it may know that there are no such ones."""
    source = pipeline.source
    spec = Folds.of(pipeline, table).spec([*source.columns, *source.derive])
    types = {name: column.type for name, column in source.columns.items()}
    rows = []
    for n in range(_ROWS):
        at = instant_of(0) + timedelta(seconds=n)
        made = {name: _made(kind, n) for name, kind in types.items()}
        made[source.event_time.column] = at
        rows.append(HeldRow(epoch_us(at), tuple(made.get(name) for name in spec.columns)))
    (outputs,) = keys_folded_under_seeds(spec, [rows], None)
    return [one.failure for one in outputs if one.failure and NOT_DETERMINISTIC in one.failure]


def _made(kind: str, n: int) -> Any:
    """The nth value of a type; null of one that has names of its own."""
    if (element := element_of(kind)) is not None:
        return [_made(element, n + more) for more in range(3)]
    made = _MADE.get(kind.partition("(")[0])
    return made(n) if made else None
