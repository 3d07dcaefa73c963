"""Stretches of time in which gold has no row, as it would be after the publish.

Gold alone is read: from `since` on, the starts of its windows, the keys that are asked for and what
tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import duckdb

from tidemark.operators.operator import same_row
from tidemark.pipeline.checks import Check, Gaps
from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.instants import epoch_us, instant_of
from tidemark.pipeline.model import WindowTable
from tidemark.quality.conditions import where_of
from tidemark.quality.planned_rows import PlannedRows
from tidemark.quality.verdicts import MOST_EXAMPLES, CheckVerdict, check_name, short
from tidemark.storage.arrow_kinds import kinds_of
from tidemark.storage.delta.dataset import dataset_of

# So many of a check stand in memory.
MOST_STRETCHES = 5_000_000
_MICROSECOND = timedelta(microseconds=1)


def judge_gaps(rows: PlannedRows) -> Iterator[CheckVerdict]:
    """A verdict for each check of a table's gaps; `rows` are the stretches that it looked at."""
    for check in rows.table.checks:
        if isinstance(check.asked, Gaps):
            try:
                expected, missing, observed = _gaps(rows, check, check.asked)
            except (duckdb.Error, ValueError) as error:
                expected, missing, observed = 0, None, f"nobody can tell: {error}"
            yield CheckVerdict(
                table=rows.name,
                check=check_name(check),
                severity=check.severity,
                passed=missing == 0,
                observed=observed,
                rows=expected,
                unexpected=missing,
            )


def _gaps(rows: PlannedRows, check: Check, asked: Gaps) -> tuple[int, int, str]:
    """How many closed stretches there are, how many of them have no row, and both in words."""
    assert isinstance(rows.table, WindowTable)
    window, closed_to = rows.table.window, instant_of(rows.plan.close_after_ms)
    every, origin = asked.every // _MICROSECOND, window.offset // _MICROSECOND
    if asked.since:
        origin = epoch_us(asked.since)
    # The last window of a stretch starts a slide before its end.
    closed = epoch_us(closed_to - window.length + window.slide)
    last = origin + (closed - origin) // every * every - every
    keys = [f'"{name}"' for name in asked.by]
    of_keys = "".join(f"{key}, " for key in keys)
    _find_stretches(rows, check, asked, of_keys, origin, every)
    first = f"coalesce(min({origin}), {origin})" if asked.since else "min(_at)"
    firsts = f"SELECT {of_keys} {first} AS _first FROM stretches GROUP BY ALL"
    of_each = f"greatest(({last} - _first) // {every} + 1, 0)"
    expected = rows.count(f"SELECT coalesce(sum({of_each}), 0) FROM ({firsts})")
    _check_bounded(expected)
    each = f"SELECT {of_keys} unnest(range(_first, {last + 1}, {every})) AS _at FROM ({firsts})"
    same = " AND ".join(f"e.{one} IS NOT DISTINCT FROM s.{one}" for one in (*keys, "_at"))
    missing = f"FROM ({each}) e ANTI JOIN stretches s ON {same}"
    number = rows.count(f"SELECT count(*) {missing}")
    if not expected:
        return 0, 0, "no stretch is closed yet"
    words = f"{expected:,} closed stretches of {duration_text(asked.every)}"
    if not number:
        return expected, 0, f"none of {words} is without a row"
    texts = "".join(f", CAST({key} AS VARCHAR)" for key in keys)
    ordered = f"ORDER BY {', '.join(('_at', *keys))} LIMIT {MOST_EXAMPLES}"
    shown = rows.connection.sql(f"SELECT _at{texts} {missing} {ordered}").fetchall()
    named = ", ".join(_name(asked, at, values) for at, *values in shown)
    more = f" and {number - len(shown):,} more" if number > len(shown) else ""
    return expected, number, f"{number:,} of {words} have no row: {named}{more}"


def _find_stretches(
    rows: PlannedRows, check: Check, asked: Gaps, of_keys: str, origin: int, every: int
) -> None:
    """Make the table `stretches`: those that have a row, by their keys."""
    start = "epoch_us(window_start)"
    conditions = [f"({where_of(check, kinds_of(rows.schema))})"]
    after = f"SELECT {rows.columns} FROM written WHERE NOT _gone"
    dates = None
    if asked.since:
        conditions.append(f"{start} >= {origin}")
        dates = f"window_date >= DATE '{asked.since.date()}'"
    if rows.kept is not None:
        rows.connection.register("kept", dataset_of(rows.kept, dates))
        same = same_row(rows.operator, "k", "w")
        after += f" UNION ALL SELECT {rows.columns} FROM kept k ANTI JOIN written w ON {same}"
    found = f"""
        SELECT {of_keys} {start} - (({start} - {origin}) % {every} + {every}) % {every} AS _at
        FROM ({after}) WHERE {" AND ".join(conditions)}
    """
    _check_bounded(rows.count(f"SELECT approx_count_distinct(hash({of_keys} _at)) FROM ({found})"))
    rows.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE stretches AS SELECT DISTINCT * FROM ({found})"
    )


def _check_bounded(number: int) -> None:
    if number > MOST_STRETCHES:
        raise ValueError(
            f"about {number:,} stretches are more than {MOST_STRETCHES:,}, which take too much "
            "memory; say a later `since`, a longer `every`, or fewer keys in `by`"
        )


def _name(asked: Gaps, at: int, values: Sequence[str | None]) -> str:
    start = (instant_of(0) + at * _MICROSECOND).isoformat().replace("+00:00", "Z")
    keys = (
        f"{key} {'null' if value is None else short(value)}"
        for key, value in zip(asked.by, values, strict=True)
    )
    return " of ".join([start, *([", ".join(keys)] if values else [])])
