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

from tidemark.operators.folds.folding import FoldSpec, HeldRow, Output
from tidemark.operators.folds.loaded import checked_fold, code_of, maker_of
from tidemark.operators.folds.seeds import keys_folded_under_seeds
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
    key: str | Sequence[str] | None = None,
    up_to: datetime | None = None,
    verdicts: bool = False,
) -> list[dict[str, Any]]:
    """The outputs of rows, given in any order, as gold would have them: `window_start`, the key,
    `number`, `window_end`, what is emitted, `rows`.

    `time` and `key` name columns of the rows, `key` one or several; without it they are one key's.
    `timeout`, `order_by` and `emits` are as the pipeline's file has them. `up_to` is the frontier:
    nothing that it has not passed comes out; None: everything has ended.
    The rows are folded twice, as audits do, and, of a class in a file that is no test, under other
    hash seeds in processes of their own. FoldFailed where an episode has a verdict; with
    `verdicts` it comes as an output instead, number 0, with `failure`.
    """
    checked_fold(kind)
    given = [dict(row) for row in rows]
    names = {name for row in given for name in row}
    code = code_of(kind)
    spec = FoldSpec(
        python=kind.__name__,
        code=code,
        timeout=_duration(timeout) // timedelta(microseconds=1),
        columns=(*order_by, *sorted(names.difference(order_by))),
        emits={name: emitted_type(of) for name, of in emits.items()},
        given=kind,
        again=maker_of(kind, code),
    )
    frontier = None if up_to is None else epoch_us(up_to)
    found: list[dict[str, Any]] = []
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    by_key = _by_key(given, keys)
    held = [[_held(row, time, spec) for row in of_key] for of_key in by_key.values()]
    for values, outputs in zip(by_key, keys_folded_under_seeds(spec, held, frontier), strict=True):
        of_key = dict(zip(keys, values, strict=True))
        found.extend(_shown(output, spec, of_key, verdicts) for output in outputs)
    return sorted(found, key=lambda output: output["window_start"])


def _duration(timeout: timedelta | str) -> timedelta:
    return parse_duration(timeout) if isinstance(timeout, str) else timeout


def _by_key(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """The rows of each key; null is one like any other. Without rows there is none."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in keys), []).append(row)
    return found


def _held(row: Mapping[str, Any], time: str, spec: FoldSpec) -> HeldRow:
    at = plain(row[time])
    return HeldRow(epoch_us(at), tuple(plain(row.get(name)) for name in spec.columns))


def _shown(
    output: Output, spec: FoldSpec, key: Mapping[str, Any], verdicts: bool
) -> dict[str, Any]:
    if output.failure and not verdicts:
        raise FoldFailed(output.failure) from output.error
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
