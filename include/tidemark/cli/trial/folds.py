"""What `tidemark try` says of folds: whether the same rows come to the same twice."""

from __future__ import annotations

from itertools import islice

from tidemark.operators.folds.folds import Folds
from tidemark.operators.folds.tried import not_deterministic
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.storage.delta.place import TablePlace

_SHOWN = 3


def fold_faults(pipeline: Pipeline, places: Places) -> list[str]:
    """A few of the keys of which two folds of the trial's rows differ; none where all is well."""
    bronze = TablePlace(places.bronze).open()
    if bronze is None:
        return []
    found: list[str] = []
    for name in pipeline.tables:
        operator = operator_of(pipeline, name)
        if isinstance(operator, Folds):
            first = islice(not_deterministic(operator, bronze), _SHOWN)
            found += [f"{name}: {one}" for one in first]
    return found
