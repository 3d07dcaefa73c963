"""Closed windows that were changed: what they were, what they became, by which cause and run.

Gold knows how often a row was corrected, and `changes` has each value that it ever had. Which came
after which tells `ops/runs`: rows of a run stand in the order of its batches, and what it computed
again comes last. A value that no publish took was never gold's.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.gold.row_values import counts_at_close
from tidemark.gold.state import gold_state
from tidemark.operators.operator import Operator, listed, same_row
from tidemark.operators.repaired import NOT_OF_GOLD
from tidemark.page.series import check_keys, key_texts
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import FAILURE, schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
from tidemark.story.asked import literal

MOST = 500


@dataclass(frozen=True)
class Correction:
    """A closed row of gold that a run changed. `key` has, as text, the values that tell it from
    others of its window. `before` and `after` are the values that differ, by name; None: there was
    no row, or is none any more. `is_known` is false where nobody can tell any more what it was
    before; `cause` and `run` are what the history tells. Times are in UTC."""

    window_start: datetime
    window_end: datetime
    key: tuple[str | None, ...]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    cause: str
    run: str
    is_known: bool = True


def corrections_of(
    gold: DeltaTable, changes: DeltaTable, operator: Operator, runs: Sequence[Mapping[str, Any]]
) -> tuple[Correction, ...]:
    """The last corrections of a table, the newest run's first: of at most MOST rows of gold.

    `runs` are the rows of `ops/runs` of all kinds that are known of the pipeline.
    """
    check_keys(gold, operator)
    there = {*schema_of(gold).names} & {*schema_of(changes).names}
    values = [name for name in operator.values if name in there]
    # Each run at the place of its last start.
    last = {row["run"]: row["started_at"] for row in sorted(runs, key=lambda r: r["started_at"])}
    order = {run: at for at, run in enumerate(sorted(last, key=lambda run: last[run]))}
    publishes = sorted(
        order[row["run"]]
        for row in runs
        if any(table["gold_version"] is not None for table in row["tables"] or ())
    )
    with duckdb_in_utc() as connection:
        places = pa.array(order.values(), pa.int64())
        connection.register(
            "runs", pa.table({"run": pa.array(order, pa.string()), "place": places})
        )
        connection.register("gold", dataset_of(gold, "status = 'corrected'"))
        connection.execute(
            f"""
            CREATE TEMP TABLE wanted AS
            SELECT {listed((*operator.identity, *values), "g")}, g.revision, g.updated_by,
                {key_texts(gold, operator, "g")} AS _key,
                row_number() OVER (ORDER BY r.place DESC NULLS LAST, window_start DESC) - 1 AS _at
            FROM gold g LEFT JOIN runs r ON r.run = g.updated_by WHERE g.status = 'corrected'
            ORDER BY _at LIMIT {MOST}
            """
        )
        wanted = connection.sql("FROM wanted ORDER BY _at").to_arrow_table().to_pylist()
        if not wanted:
            return ()
        starts = [row["window_start"] for row in wanted]
        range_ = f"c.window_start BETWEEN {literal(min(starts))} AND {literal(max(starts))}"
        connection.register("changes", dataset_of(changes))
        others = ", ".join(f"'{cause}'" for cause in NOT_OF_GOLD)
        failure = f'c."{FAILURE}"' if FAILURE in schema_of(changes).names else "NULL"
        columns = (*operator.identity, *values)
        rows = connection.sql(
            f"""
            SELECT {listed(columns, "c")}, c.cause, c.run, {failure} AS _failure, r.place AS _place,
                w._at
            FROM changes c JOIN wanted w ON {same_row(operator, "w", "c")}
                LEFT JOIN runs r ON r.run = c.run
            WHERE {range_} AND c.cause NOT IN ({others})
                AND {counts_at_close(gold_state(gold).close_ms, "c")}
            ORDER BY w._at, r.place NULLS FIRST, c.cause <> 'stream', c.batch NULLS LAST
            """
        ).to_arrow_table().to_pylist()  # fmt: skip
    found = [
        one
        for at, of in groupby(rows, itemgetter("_at"))
        for one in _of_row(values, wanted[at], list(of), publishes)
    ]
    return tuple(sorted(found, key=lambda one: (-order.get(one.run, -1), one.window_start)))


def _of_row(
    columns: Sequence[str],
    gold: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    publishes: Sequence[int],
) -> Iterator[Correction]:
    """The last `revision` steps from one published value of a row to the next."""
    window = (gold["window_start"], gold["window_end"], tuple(gold["_key"]))
    steps: list[Mapping[str, Any]] = []
    for row, following in pairwise([*rows, None]):
        assert row is not None
        then = None if following is None else following["_place"]
        taken = following is None or _is_between(publishes, row["_place"], then)
        if taken and not (steps and _same(columns, steps[-1], row)):
            steps.append(row)
    # What a held run computed is not gold's yet.
    while steps and not _same(columns, steps[-1], gold):
        steps.pop()
    # Of runs that are not known any more nobody can tell which came first.
    in_doubt = sum(row["_place"] is None for row in rows) > 1
    for before, after in list(pairwise(steps))[-gold["revision"] :]:
        is_known = not (in_doubt and before["_place"] is None)
        old, new = _values(columns, before), _values(columns, after)
        names = [n for n in (old or new or {}) if not (old and new and _equal(old[n], new[n]))]
        yield Correction(
            *window,
            {name: old[name] for name in names} if old and is_known else None,
            {name: new[name] for name in names} if new else None,
            after["cause"],
            after["run"],
            is_known,
        )
    if len(steps) < 2:
        cause = steps[0]["cause"] if steps else ""
        yield Correction(*window, None, _values(columns, gold), cause, gold["updated_by"], False)


def _is_between(publishes: Sequence[int], first: int | None, then: int | None) -> bool:
    """Was there a publish from the one run on, and before the other? Of a run that is not known
    any more: it is taken for one that published."""
    if first is None:
        return True
    if then is None:
        return False
    at = bisect_left(publishes, first)
    return at < len(publishes) and publishes[at] < then


def _values(columns: Sequence[str], row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if row["rows"] == 0 or row.get("_failure") is not None:
        return None
    return {name: row[name] for name in columns if name != "window_end"}


def _same(columns: Sequence[str], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    old, new = _values(columns, one), _values(columns, other)
    if old is None or new is None:
        return old is new
    return all(_equal(old[name], new[name]) for name in old)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)
