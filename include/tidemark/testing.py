"""For tests of what users write: a fold without Spark and without tables.

    from tidemark.testing import fold

    def test_a_visitor_who_comes_back() -> None:
        rows = [{"at": at(0), "status": 500}, {"at": at(3), "status": 200}]
        found = fold(Returns, rows, time="at", timeout="30 minutes", emits={"waited": "double"})
        assert [output["waited"] for output in found] == [180.0]

What comes out is what gold would show of these rows once all are closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tidemark.operators.folds.folding import FoldSpec, HeldRow, Output, keys_folded_twice
from tidemark.operators.folds.loaded import checked_fold
from tidemark.operators.folds.values import plain
from tidemark.pipeline.durations import parse_duration
from tidemark.pipeline.fold_types import emitted_type
from tidemark.pipeline.instants import epoch_us, instant_of


class FoldFailed(AssertionError):
    """The class raised on a row, gave what does not fit, or is not deterministic: in a run that is
    a verdict on its episode."""


def fold(
    kind: type[Any],
    rows: Iterable[Mapping[str, Any]],
    *,
    time: str,
    timeout: timedelta | str,
    emits: Mapping[str, str],
    order_by: Sequence[str] = (),
    key: str | None = None,
    up_to: datetime | None = None,
    verdicts: bool = False,
) -> list[dict[str, Any]]:
    """The outputs of rows, given in any order, as gold would have them: `window_start`, the key,
    `number`, `window_end`, what is emitted, `rows`.

    `time` and `key` name columns of the rows; without a key they are one key's. `timeout`,
    `order_by` and `emits` are as the pipeline's file has them. `up_to` is the frontier: nothing
    that it has not passed comes out; None: everything has ended.
    The rows are folded twice, as audits do. FoldFailed where an episode has a verdict; with
    `verdicts` it comes as an output instead, number 0, with `failure`.
    """
    checked_fold(kind)
    given = [dict(row) for row in rows]
    names = {name for row in given for name in row}
    spec = FoldSpec(
        python=kind.__name__,
        code={},
        timeout=_duration(timeout) // timedelta(microseconds=1),
        columns=(*order_by, *sorted(names.difference(order_by))),
        emits={name: emitted_type(of) for name, of in emits.items()},
        given=kind,
    )
    frontier = None if up_to is None else epoch_us(up_to)
    found: list[dict[str, Any]] = []
    values = list(_values_of(given, key))
    of_keys = [[row for row in given if key is None or row.get(key) == value] for value in values]
    held = [[_held(row, time, spec) for row in rows_of] for rows_of in of_keys]
    for value, outputs in zip(values, keys_folded_twice(spec, held, frontier), strict=True):
        told = {} if key is None else {key: value}
        found.extend(_shown(output, spec, told, verdicts) for output in outputs)
    return sorted(found, key=lambda output: output["window_start"])


def _duration(timeout: timedelta | str) -> timedelta:
    return parse_duration(timeout) if isinstance(timeout, str) else timeout


def _values_of(rows: Sequence[Mapping[str, Any]], key: str | None) -> Iterable[Any]:
    """The values of a key, each once; null is one like any other."""
    return [None] if key is None else dict.fromkeys(row.get(key) for row in rows)


def _held(row: Mapping[str, Any], time: str, spec: FoldSpec) -> HeldRow:
    at = plain(row[time])
    return HeldRow(epoch_us(at), tuple(plain(row.get(name)) for name in spec.columns))


def _shown(
    output: Output, spec: FoldSpec, key: Mapping[str, Any], verdicts: bool
) -> dict[str, Any]:
    if output.failure and not verdicts:
        raise FoldFailed(output.failure)
    failure = {"failure": output.failure} if output.failure else {}
    return {
        "window_start": _instant(output.start),
        **key,
        "number": output.number,
        "window_end": _instant(output.end),
        **dict(zip(spec.emits, output.values, strict=True)),
        "rows": output.rows,
        **failure,
    }


def _instant(microseconds: int) -> datetime:
    return instant_of(0) + timedelta(microseconds=microseconds)
