"""What a lookup that says something else touches, told without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.kit.running import Place, clicks
from tidemark.gold.looked_up import touched_by_lookups
from tidemark.gold.plan import GoldState
from tidemark.operators.kinds import operator_of
from tidemark.operators.lookups import newest_copy
from tidemark.operators.other_inputs import reading
from tidemark.operators.touched import NEVER_MS
from tidemark.runs.lookups import copy_lookups

INSTANT = pa.timestamp("us", "UTC")
# The last second of 9999 in New York, and the first one of the year 1 in Vienna.
LATER, EARLIER = 253_402_318_799_000_000, -62_135_600_721_000_000
AT = datetime(2026, 7, 1, 12, tzinfo=UTC)


def say(place: Place, name: str, since: int, until: int | None) -> int:
    """What the lookup says from now on; the number of its copy."""
    times = {
        "since": pa.array([since], pa.int64()).cast(INSTANT),
        "until": pa.array([until], pa.int64()).cast(INSTANT),
    }
    (place.root / "dims").mkdir(exist_ok=True)
    pq.write_table(pa.table({"key": ["a"], "name": [name], **times}), place.root / "dims/a.parquet")
    list(copy_lookups(place.run("copy")))
    newest = newest_copy(place.warehouse.lookup("dims"))
    assert newest is not None
    return newest.number


def touched(place: Place, noted: int) -> list[datetime]:
    """The windows that are touched where gold notes this copy."""
    operator = reading(operator_of(place.pipeline, "t"), place.warehouse)
    located = [(name, INSTANT if name == "window_start" else pa.string())
               for name in operator.located]  # fmt: skip
    gold = pa.schema([*located, ("window_end", INSTANT), ("rows", pa.int64())])
    changes = pa.schema([*gold, ("cause", pa.string()), ("generation", pa.int64())])
    for name, schema in (("gold", gold), ("changes", changes)):
        write_deltalake(place.root / name, schema.empty_table(), mode="ignore")
    state = GoldState(0, 0, {"bronze": 0, "lookup/dims": noted}, NEVER_MS, 1)
    rows = operator.rows_in(DeltaTable(place.places.bronze))
    tables = (DeltaTable(place.root / name) for name in ("gold", "changes"))
    found = touched_by_lookups(rows, *tables, state, 0, 0, None)
    return found.column("window_start").to_pylist()


@pytest.mark.parametrize("former", [False, True])
@pytest.mark.parametrize(("since", "until"), [(0, LATER), (EARLIER, None), (EARLIER, LATER)])
def test_rows_that_hold_beyond_the_calendar_touch_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: int, until: int | None, former: bool
) -> None:
    """By former copies too, which have such times as the source did."""
    columns = {"name": "string", "since": "timestamp", "until": "timestamp"}
    lookup = {"file": "dims/a.parquet", "on": "key", "columns": columns,
              "as_of": ["since", "until"]}  # fmt: skip
    table = {"window": {"length": "10 minutes"}, "measures": {"name": "max(dims.name)"}}
    place = Place(tmp_path, clicks(lookup={"dims": lookup}, tables={"t": table}))
    bronze = {"at": pa.array([AT], INSTANT), "key": ["a"], "amount": [1],
              "_event_date": [AT.date()]}  # fmt: skip
    write_deltalake(place.places.bronze, pa.table(bronze), partition_by=["_event_date"])
    with monkeypatch.context() as before:
        if former:
            before.setattr("tidemark.runs.lookups._within_calendar", lambda _, rows: rows)
        noted = say(place, "one", since, until)
    assert touched(place, noted) == []
    # That gold names it keeps it.
    monkeypatch.setattr("tidemark.runs.lookups._pinned", lambda *_: iter([noted]))
    assert say(place, "two", since, until) == noted + 1
    assert touched(place, noted) == [AT]
