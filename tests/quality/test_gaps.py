"""Stretches without a row are told by name, of gold as it would be after the publish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.kit.late_model import EPOCH
from tests.kit.running import Place, clicks
from tests.kit.windows import Row, at, window
from tests.quality.held import TABLE, Held, verdict_of
from tidemark.gold.plan import PublishPlan
from tidemark.operators.kinds import operator_of
from tidemark.quality import gaps
from tidemark.quality.planned_rows import PlannedRows
from tidemark.quality.verdicts import CheckVerdict
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

MINUTE = timedelta(minutes=1)
TEN = 10 * MINUTE
HOURLY = {"every": "1 hour", "since": "2026-07-01T08:00:00Z"}


def row(start: datetime, key: str | None = "a", total: int = 1, rows: int = 1) -> Row:
    return window(start, rows, key=key, total=total)


def told(held: Held, *rows: Row, close: datetime, run_id: str = "run") -> CheckVerdict:
    return verdict_of(held.gated(held.run(*rows, run_id=run_id, close=close)), "gaps")


def test_stretches_without_a_row_are_counted_and_named(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"warn": {"gaps": HOURLY}}])
    found = told(held, row(at(8, 50)), row(at(10)), row(at(12, 10)), close=at(13, 59))
    assert found.check == "gaps every 1 hour since 2026-07-01T08:00:00Z"
    assert (found.severity, found.passed, found.rows, found.unexpected) == ("warn", False, 5, 2)
    assert found.observed == (
        "2 of 5 closed stretches of 1 hour have no row: 2026-07-01T09:00:00Z, 2026-07-01T11:00:00Z"
    )


def test_each_combination_of_keys_that_gold_has_needs_rows_of_its_own(tmp_path: Path) -> None:
    asked = {"every": "10 minutes", "by": ["key"]}
    held = Held(tmp_path, [{"fail": {"gaps": asked}}])
    rows = [row(at(10), "a"), row(at(10, 40), "a"), row(at(10, 20), None), row(at(10, 50), "b")]
    gated = held.gated(held.run(*rows, close=at(10, 50)))
    found = verdict_of(gated, "gaps")
    # Each from its own first window on; what is open is not looked at.
    assert (found.rows, found.unexpected) == (5 + 3, 3 + 2)
    assert found.observed == (
        "5 of 8 closed stretches of 10 minutes have no row: 2026-07-01T10:10:00Z of key a, "
        "2026-07-01T10:20:00Z of key a, 2026-07-01T10:30:00Z of key a, "
        "2026-07-01T10:30:00Z of key null, 2026-07-01T10:40:00Z of key null"
    )
    assert gated.run.error is not None
    assert "2026-07-01T10:10:00Z of key a" in gated.run.error.message
    (told_of,) = [one for one in held.verdicts() if one["check"].startswith("gaps")]
    assert (told_of["observed"], told_of["unexpected"]) == (found.observed, 5)


def test_with_since_each_combination_is_asked_for_from_there_on(tmp_path: Path) -> None:
    asked = {"every": "10 minutes", "since": "2026-07-01T10:10:00Z", "by": ["key"]}
    held = Held(tmp_path, [{"warn": {"gaps": asked}}])
    # `c` has rows before that alone: nobody asks for more of it.
    rows = [row(at(10), "c"), row(at(10, 20), "a"), row(at(10, 10), "b")]
    found = told(held, *rows, close=at(10, 30))
    assert found.observed.endswith(
        "no row: 2026-07-01T10:10:00Z of key a, 2026-07-01T10:20:00Z of key b"
    )
    assert found.rows == 4


def test_of_many_the_first_ten_are_named(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"warn": {"gaps": {"every": "10 minutes"}}}])
    found = told(held, row(at(10)), row(at(14)), close=at(14, 10))
    assert found.unexpected == 23
    assert found.observed.endswith("2026-07-01T11:40:00Z and 13 more")
    assert found.observed.count("Z") == 10


def test_a_table_without_any_row_has_gaps_where_it_says_since(tmp_path: Path) -> None:
    checks = [{"warn": {"gaps": HOURLY}}, {"warn": {"gaps": {"every": "1 hour"}}}]
    held = Held(tmp_path, checks)
    gated = held.gated(held.run(row(at(10)), row(at(10), rows=0), close=at(10)))
    of_since, other = (one for one in gated.validation.verdicts if one.check.startswith("gaps"))
    assert (of_since.rows, of_since.unexpected) == (2, 2)
    assert (other.rows, other.passed, other.observed) == (0, True, "no stretch is closed yet")


def test_a_late_row_fills_a_gap_and_a_window_that_goes_leaves_one(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"fail": {"gaps": HOURLY}}])
    rows = [row(at(hour)) for hour in (8, 9, 11)]
    gated = held.gated(held.run(*rows, run_id="first", close=at(12)))
    assert verdict_of(gated, "gaps").unexpected == 1
    assert gated.run.error is not None
    # The run that brings the row publishes what was held with its own.
    second = held.gated(held.run(row(at(10, 50)), run_id="second", close=at(12)))
    found = verdict_of(second, "gaps")
    assert (found.passed, found.rows, second.run.error) == (True, 4, None)
    assert found.observed == "none of 4 closed stretches of 1 hour is without a row"
    held.publish(second.run)
    assert told(held, row(at(12)), run_id="third", close=at(13)).passed
    gone = told(held, row(at(9), rows=0), row(at(10, 50), total=5), run_id="fourth", close=at(13))
    assert gone.observed.endswith("no row: 2026-07-01T09:00:00Z")


def test_stretches_go_on_over_the_beginning_of_1970(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"warn": {"gaps": {"every": "30 minutes"}}}])
    found = told(held, row(EPOCH - 50 * MINUTE), row(EPOCH + 70 * MINUTE), close=EPOCH + 9 * TEN)
    assert found.rows == 5
    assert found.observed.endswith(
        "no row: 1969-12-31T23:30:00Z, 1970-01-01T00:00:00Z, 1970-01-01T00:30:00Z"
    )


def test_rows_for_which_where_is_not_true_fill_no_gap(tmp_path: Path) -> None:
    check = {"warn": {"gaps": HOURLY}, "where": "total > 1 and key = 'a'"}
    held = Held(tmp_path, [check])
    rows = [row(at(8), total=2), row(at(9)), row(at(10), "b", total=2)]
    held.publish(held.run(*rows, run_id="first", close=at(10, 10)))
    found = told(held, row(at(10, 20), total=2), run_id="second", close=at(11))
    assert found.check.endswith("since 2026-07-01T08:00:00Z where total > 1 and key = 'a'")
    assert found.observed.endswith("no row: 2026-07-01T09:00:00Z")


def test_more_stretches_than_memory_takes_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"every": "10 minutes", "since": "1926-07-01T00:00:00Z"}
    held = Held(tmp_path, [{"fail": {"gaps": old}}, {"warn": {"gaps": HOURLY}}])
    gated = held.gated(held.run(row(at(10)), close=at(11)))
    found, other = (one for one in gated.validation.verdicts if one.check.startswith("gaps"))
    assert found.observed.startswith("nobody can tell: about 5,259,666 stretches are more than")
    assert (found.passed, found.unexpected, other.unexpected) == (False, None, 2)
    monkeypatch.setattr(gaps, "MOST_STRETCHES", 3)
    held.check({"warn": {"gaps": {"every": "10 minutes", "by": ["key"]}}})
    rows = [row(at(10, minute), key) for minute in (0, 10, 20) for key in "abc"]
    found = told(held, *rows, run_id="next", close=at(10, 10))
    assert found.observed.startswith("nobody can tell: about")


def test_gold_that_cannot_be_read_ends_the_validation_and_is_no_verdict(tmp_path: Path) -> None:
    held = Held(tmp_path, [{"fail": {"gaps": {"every": "1 hour"}}}])
    held.publish(held.run(row(at(8)), run_id="first", close=at(10)))
    (file,) = Path(held.place.places.gold("per_10m")).rglob("*.parquet")
    whole = file.read_bytes()
    file.unlink()
    run = held.run(row(at(10, day=3)), run_id="second", close=at(11, day=3))
    with pytest.raises(duckdb.Error, match=file.name):
        held.gated(run)
    told_of = json.loads(Path(held.uri("second")).read_text())["error"]
    assert (told_of["class"], told_of["retry_can_help"]) == ("DataDamaged", False)
    assert not Path(held.place.places.quality).exists()
    file.write_bytes(whole)
    assert verdict_of(held.gated(run), "gaps").unexpected == 49


# In plain Python.


def named(start: datetime, by: Sequence[str], key: str | None) -> str:
    text = start.isoformat().replace("+00:00", "Z")
    return f"{text} of key {'null' if key is None else key}" if by else text


def in_python(
    rows: dict[tuple[datetime, str | None], Row],
    asked: dict[str, Any],
    windows: tuple[timedelta, timedelta, datetime],
    close: datetime,
) -> tuple[int, list[str]]:
    (length, slide, first), every, since, by = (
        windows,
        asked["every"],
        asked.get("since"),
        asked["by"],
    )
    seen: dict[str | None, set[datetime]] = {} if by or since is None else {None: set()}
    for start, key in rows:
        if since is None or start >= since:
            origin = since or first
            stretch = origin + (start - origin) // every * every
            seen.setdefault(key if by else None, set()).add(stretch)
    expected, missing = 0, []
    for key, with_rows in seen.items():
        stretch = since or min(with_rows)
        while stretch + every - slide + length <= close:
            expected += 1
            if stretch not in with_rows:
                missing.append((stretch, key is None, key))
            stretch += every
    return expected, [named(start, by, key) for start, _, key in sorted(missing, key=repr_last)]


def repr_last(one: tuple[datetime, bool, str | None]) -> tuple[datetime, bool, str]:
    return one[0], one[1], one[2] or ""


DRAWS = [
    pytest.param(number, marks=() if number < 2 else pytest.mark.second) for number in range(24)
]


@pytest.mark.slow
@pytest.mark.parametrize("number", DRAWS)
def test_random_tables_have_the_gaps_that_plain_python_finds(number: int, tmp_path: Path) -> None:
    draw = Random(number)
    length, slide = draw.choice([(TEN, TEN), (3 * TEN, TEN), (6 * TEN, 2 * TEN)])
    asked = {"every": slide * draw.choice([1, 2, 3, 7]), "by": draw.choice([[], ["key"]])}
    first = EPOCH + draw.choice([0, 0, 3]) * MINUTE
    midnight = first + (at(0) - first) // slide * slide
    if draw.random() < 0.6:
        asked["since"] = midnight + slide * draw.randint(-20, 40)
    held = Held(tmp_path, [])
    table = TABLE | {"checks": [{"warn": {"gaps": asked}}]}
    of_window = {"length": length, "slide": slide, "offset": first - EPOCH}
    minutes = {name: f"{long // MINUTE} minutes" for name, long in of_window.items()}
    held.place.content = {**held.place.content, "tables": {"per_10m": table | {"window": minutes}}}
    rows: dict[tuple[datetime, str | None], Row] = {}
    close = at(0)
    for run in range(draw.randint(1, 4)):
        close += draw.randint(0, 40) * TEN + timedelta(milliseconds=draw.choice([0, -1, 1]))
        changed: dict[tuple[datetime, str | None], Row] = {}
        for _ in range(draw.randint(1, 25)):
            start = midnight + slide * draw.randint(0, 60)
            one = {"key": draw.choice(["a", "b", None]), "total": draw.randint(0, 3)}
            gone = draw.random() < 0.15
            changed[start, one["key"]] = {
                **one,
                "window_start": start,
                "window_end": start + length,
                "rows": 0 if gone else 1,
            }
        rows = {where: one for where, one in (rows | changed).items() if one["rows"]}
        result = held.run(*changed.values(), run_id=f"run-{run}", close=close)
        verdicts = held.gated(result).validation.verdicts
        expected, missing = in_python(rows, asked, (length, slide, first), close)
        if found := [one for one in verdicts if one.check.startswith("gaps")]:
            assert (found[0].rows, found[0].unexpected) == (expected, len(missing))
            more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
            assert not missing or found[0].observed.endswith(", ".join(missing[:10]) + more)
        if draw.random() < 0.7:
            held.publish(result)


def test_a_since_for_which_a_zone_has_no_date_breaks_the_check_and_not_the_run(
    tmp_path: Path,
) -> None:
    table = {
        "window": {"calendar": "day", "zone": "America/New_York"},
        "checks": [{"warn": {"gaps": {"since": "0001-01-01T00:00:00Z"}}}],
        "measures": {"events": "count(*)"},
    }
    pipeline = Place(tmp_path, clicks(tables={"days": table})).pipeline
    plan = PublishPlan(1, 0, 1, {}, {}, 0, 1_000, 1)
    schema = pa.schema({"window_start": pa.timestamp("us", "UTC")})
    with duckdb_in_utc() as connection:
        connection.execute("CREATE TEMP TABLE written (window_start TIMESTAMPTZ, _gone BOOLEAN)")
        rows = PlannedRows("days", operator_of(pipeline, "days"), plan, schema, connection)
        (found,) = gaps.judge_gaps(rows)
    assert (found.passed, found.unexpected) == (False, None)
    assert found.observed.startswith("nobody can tell")
