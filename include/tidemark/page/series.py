"""A measure over time by key, as gold has it: the points that a chart draws."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.errors import TableMismatch
from tidemark.gold.spans import dates_predicate
from tidemark.operators.operator import Operator
from tidemark.pipeline.instants import instant_of_us
from tidemark.printed import shown
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.history import schema_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

MOST_KEYS = 6
MOST_POINTS = 10_000
# Of gold's newest dates as many are read as have about so many rows.
_ROWS = 400_000


def numbers_of(gold: DeltaTable, operator: Operator) -> tuple[str, ...]:
    """The columns of gold that can be drawn: measures, and `rows` at last."""
    schema = schema_of(gold)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    names = [name for name in operator.values if name in schema.names]
    return tuple(n for n in names if any(is_a(schema.field(n).type) for is_a in tests))


def key_columns(operator: Operator) -> tuple[str, ...]:
    """The columns that tell rows of one window apart."""
    return tuple(name for name in operator.identity if name != "window_start")


def check_keys(gold: DeltaTable, operator: Operator) -> None:
    """TableMismatch where gold's rows are told apart by other columns than the pipeline's file
    says: it was changed, and the table is of the generation before."""
    if missing := {*operator.identity} - {*schema_of(gold).names}:
        raise TableMismatch(
            f"The pipeline's file names the keys {', '.join(sorted(missing))}, which gold does not "
            "have: the table is of the generation before. `tidemark migrate` makes the next one."
        )


def key_texts(gold: DeltaTable, operator: Operator, relation: str) -> str:
    """SQL for the key of a row of gold in a relation, as a list of texts that `explain` takes."""
    schema = schema_of(gold)

    def text(name: str) -> str:
        of = f'{relation}."{name}"'
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            return f"to_json({of})::VARCHAR"
        is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        return f"lower(hex({of}))" if is_binary else f"{of}::VARCHAR"

    return f"[{', '.join(map(text, key_columns(operator)))}]::VARCHAR[]"


def series_of(
    gold: DeltaTable, operator: Operator, measure: str, find: str, days: int
) -> dict[str, Any]:
    """A number of gold's newest dates, at most `days`, as a chart draws it. `find`: only keys with
    this text in one of their values.

    `starts` are those of windows, in seconds since 1970, UTC; `windows` has them as text, which a
    story is asked for by. `keys` has the largest: of each a `value` (None: null, or no number that
    can be drawn) and a `status` for each start.
    `left_out` counts the other keys; `days` the dates that were read, of `all_days`; `is_cut`:
    older windows of them are not drawn.
    """
    check_keys(gold, operator)
    dates, all_days = _newest_dates(gold, days)
    if not dates:
        none: dict[str, Any] = {"starts": [], "windows": [], "keys": {}}
        return {**none, "left_out": 0, "days": 0, "all_days": 0, "is_cut": False}
    with duckdb_in_utc() as connection:
        connection.register("gold", dataset_of(gold, dates_predicate(dates)))
        connection.execute(
            f"""
            CREATE TEMP TABLE shown AS
            SELECT epoch_us(window_start) AS start, {key_texts(gold, operator, "gold")} AS key,
                "{measure}"::DOUBLE AS value, status
            FROM gold WHERE {dates_predicate(dates)}
            """
        )
        found = connection.execute(
            """
            SELECT key, count(*) OVER () FROM shown
            WHERE $find = ''
                OR len(list_filter(key, lambda one: contains(lower(one), lower($find)))) > 0
            GROUP BY key ORDER BY sum(abs(value)) FILTER (isfinite(value)) DESC NULLS LAST, key
            LIMIT $most
            """,
            {"find": find, "most": MOST_KEYS},
        ).fetchall()
        rows = connection.execute(
            "SELECT key, start, value, status FROM shown WHERE list_contains($keys, key) "
            "ORDER BY start DESC LIMIT $most",
            {"keys": [key for key, _ in found], "most": MOST_POINTS + 1},
        ).fetchall()
    drawn = rows[:MOST_POINTS]
    starts = sorted({start for _, start, _, _ in drawn})
    told = {(*key, start): (value, status) for key, start, value, status in drawn}
    keys = {}
    for key in (tuple(key) for key, _ in found):
        points = [told.get((*key, start), (None, None)) for start in starts]
        keys[key] = {
            "label": key_text(key),
            "key": key_json(key),
            "value": [one if one is not None and math.isfinite(one) else None for one, _ in points],
            "status": [status for _, status in points],
        }
    return {
        "starts": [start / 1_000_000 for start in starts],
        "windows": [instant_of_us(start).isoformat() for start in starts],
        "keys": keys,
        "left_out": found[0][1] - len(found) if found else 0,
        "days": len(dates),
        "all_days": all_days,
        "is_cut": len(rows) > MOST_POINTS,
    }


def _newest_dates(gold: DeltaTable, days: int) -> tuple[tuple[date, ...], int]:
    """The dates that are read, and how many gold has, by the statistics of its files."""
    files = pa.table(gold.get_add_actions(flatten=True))
    if not files.num_rows:
        return (), 0
    rows: dict[date, int] = {}
    for file in files.select(["partition.window_date", "num_records"]).to_pylist():
        day = date.fromisoformat(str(file["partition.window_date"]))
        rows[day] = rows.get(day, 0) + (file["num_records"] or 0)
    chosen: list[date] = []
    sum_ = 0
    for day in sorted(rows, reverse=True)[:days]:
        sum_ += rows[day]
        if chosen and sum_ > _ROWS:
            break
        chosen.append(day)
    return tuple(sorted(chosen)), len(rows)


def key_text(key: Sequence[str | None]) -> str:
    """A key as one line for people."""
    texts = ("null" if value is None else shown(value) or "(empty)" for value in key)
    return " · ".join(texts) or "all"


def key_json(key: Sequence[str | None]) -> str:
    """A key as an address has it; it differs for each key."""
    return json.dumps(list(key), ensure_ascii=False)
