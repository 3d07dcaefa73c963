"""What was corrected, held against gold as each of its versions had it."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import types as T

from tests.kit.windows import Windows, at, window
from tidemark.gold.state import gold_state
from tidemark.page.corrections import Correction, corrections_of
from tidemark.page.series import series_of
from tidemark.pipeline.instants import instant_of
from tidemark.story.asked import row_asked

TOLD = ("window_start", "key", "total")


def told(one: Correction) -> tuple[Any, ...]:
    before = None if one.before is None else one.before["total"]
    after = None if one.after is None else one.after["total"]
    return one.window_start, one.key[0], before, after


def by_time_travel(windows: Windows) -> list[tuple[Any, ...]]:
    """Rows that were closed in one version of gold and another value in the next one."""
    versions = []
    for version in range(DeltaTable(windows.gold_uri).version() + 1):
        gold = DeltaTable(windows.gold_uri, version=version)
        rows = pa.table(gold.to_pyarrow_table()).to_pylist()
        close = gold_state(gold).close_ms
        versions.append(({(row["window_start"], row["key"]): row for row in rows}, close))
    found = []
    for (before, close), (after, _) in pairwise(versions):
        for name, row in before.items():
            new = after.get(name)
            closed = close and row["window_end"] <= instant_of(close)
            if new and closed and new["total"] != row["total"]:
                found.append((*name, row["total"], new["total"]))
    return found


def run_row(run: str, number: int, published: bool) -> dict[str, Any]:
    tables = [{"gold_version": number if published else None}]
    return {"run": run, "started_at": at(12) + timedelta(minutes=number), "tables": tables}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_corrections_are_those_that_golds_versions_show(tmp_path: Path, seed: int) -> None:
    draw, windows, runs = random.Random(seed), Windows(tmp_path), []
    totals: dict[tuple[int, str], int] = {}
    for number in range(9):
        # The last one is held in every other case: what it computed is not gold's.
        run, published = f"run-{number}", draw.random() < 0.75 and (number < 8 or seed % 2 == 0)
        # A repair says after which batch it was; one of a former version said none.
        repaired_after = number if seed % 3 else None
        for cause, batch in (("stream", number), ("late", repaired_after)):
            # The engine emits nothing of what is closed; a repair computes it.
            # In one run both may compute a window that closes in it.
            minutes = (
                range(max(number - 1, 0) * 10, 90) if cause == "stream" else range(number * 10)
            )
            chosen = [(m, k) for m in minutes if m % 10 == 0 for k in "ab" if draw.random() < 0.4]
            for name in chosen:
                totals[name] = totals.get(name, 0) + draw.randint(0, 2)
            rows = [window(at(10) + timedelta(minutes=m), key=k, total=totals[m, k], rows=1)
                    for m, k in chosen]  # fmt: skip
            if rows:
                windows.change(*rows, cause=cause, batch=batch, run=run)
        if published:
            windows.publish_at(at(10) + timedelta(minutes=10 * number), run)
        runs.append(run_row(run, number, published))
    draw.shuffle(runs)
    gold, changes = windows.gold_table(), DeltaTable(windows.changes_uri)
    found = corrections_of(gold, changes, windows.operator, runs)
    assert all(one.is_known for one in found)
    assert sorted(map(told, found)) == sorted(by_time_travel(windows))
    assert found
    order = [one.run for one in found]
    assert order == sorted(order, reverse=True)


def test_of_runs_that_nobody_knows_any_more_no_order_is_made_up(tmp_path: Path) -> None:
    windows = Windows(tmp_path)
    for number, (cause, total) in enumerate((("stream", 1), ("late", 5), ("late", 9))):
        windows.change(window(at(10), key="a", total=total), cause=cause, run=f"run-{number}")
        windows.publish_at(at(10, 10), f"run-{number}")
    gold, changes = windows.gold_table(), DeltaTable(windows.changes_uri)
    (last,) = corrections_of(gold, changes, windows.operator, [run_row("run-2", 2, True)])[:1]
    assert (last.is_known, last.before, last.run) == (False, None, "run-2")
    assert last.after == {"total": 9}
    known = [run_row(f"run-{number}", number, True) for number in (1, 2)]
    found = corrections_of(gold, changes, windows.operator, known)
    assert [told(one)[2:] for one in found] == [(5, 9), (1, 5)]


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_what_a_run_s_repair_says_comes_after_its_batch_however_rows_lie(
    tmp_path: Path, order: str
) -> None:
    """Packed ones hold rows in any order, and a repair is of the batch that was the last."""
    windows, of_first = Windows(tmp_path), window(at(10), key="a")
    windows.change({**of_first, "total": 1}, run="run-0")
    windows.change({**of_first, "total": 5}, cause="late", run="run-0")
    windows.publish_at(at(10, 10), "run-0")
    windows.change({**of_first, "total": 9}, cause="late", batch=1, run="run-1")
    windows.publish_at(at(10, 10), "run-1")
    rows = pa.table(DeltaTable(windows.changes_uri).to_pyarrow_table())
    rows = rows.sort_by([("total", order)])
    write_deltalake(windows.changes_uri, rows, mode="overwrite")
    known = [run_row(f"run-{number}", number, True) for number in (0, 1)]
    gold, changes = windows.gold_table(), DeltaTable(windows.changes_uri)
    (found,) = corrections_of(gold, changes, windows.operator, known)
    assert told(found)[2:] == (5, 9)


def test_a_row_that_starts_between_milliseconds_is_told_as_any_other(tmp_path: Path) -> None:
    """Sessions do: they start with an event."""
    windows = Windows(tmp_path)
    starts = [at(10) + timedelta(microseconds=of) for of in (123_456, 7)]
    for number, cause in enumerate(("stream", "late")):
        rows = [window(start, key="a", total=number, rows=1) for start in starts]
        windows.change(*rows, cause=cause, run=f"run-{number}")
        windows.publish_at(at(10, 30), f"run-{number}")
    gold, changes = windows.gold_table(), DeltaTable(windows.changes_uri)
    known = [run_row(f"run-{number}", number, True) for number in (0, 1)]
    found = corrections_of(gold, changes, windows.operator, known)
    assert [told(one) for one in found] == [(start, "a", 0, 1) for start in sorted(starts)]


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [(T.ArrayType(T.LongType()), [[1, 2], [], None], ["[1,2]", "[]", None]),
     (T.StructType([T.StructField("a", T.LongType())]), [{"a": 1}, {"a": None}],
      ['{"a":1}', '{"a":null}']),
     (T.DoubleType(), [float("nan"), 0.5], ["nan", "0.5"])],
)  # fmt: skip
def test_corrections_and_charts_tell_keys_of_any_type_as_explain_takes_them(
    tmp_path: Path, kind: T.DataType, values: list[Any], texts: list[str | None]
) -> None:
    windows = Windows(tmp_path, keys={"key": kind})
    for number, cause in enumerate(("stream", "late")):
        rows = [window(at(10), key=key, total=number, rows=1) for key in values]
        windows.change(*rows, cause=cause, run=f"run-{number}")
        windows.publish_at(at(10, 30), f"run-{number}")
    gold, changes = windows.gold_table(), DeltaTable(windows.changes_uri)
    known = [run_row(f"run-{number}", number, True) for number in (0, 1)]
    found = corrections_of(gold, changes, windows.operator, known)
    assert {told(one)[1:] for one in found} == {(text, 0, 1) for text in texts}
    assert len(found) == len(texts)
    assert set(series_of(gold, windows.operator, "total", "", 9)["keys"]) == {(t,) for t in texts}
    for text in texts:
        asked = row_asked(windows.operator, gold, [], at(10), {"key": text})
        assert len(asked.found_in(gold, {"key": "key"}, "true", 9)) == 1
