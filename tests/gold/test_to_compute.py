"""What a repair has to compute again from bronze, where rows of it were deleted and landed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import types as T

from tests.kit.windows import Row, Windows, at, millis, window
from tidemark.gold.excluded import Excluded
from tidemark.gold.state import gold_state
from tidemark.gold.to_compute import Frontiers, to_compute
from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import InputTable
from tidemark.operators.sessions.sessions import Sessions
from tidemark.operators.touched import BatchRead
from tidemark.pipeline.model import JoinTable, SessionTable
from tidemark.storage.delta.place import TablePlace

OTHER = "bronze/other"
COLUMNS = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("key", pa.string()),
        ("amount", pa.int64()),
        ("_event_date", pa.date32()),
    ]
)


def ingest(uri: str, amount: int, *minutes: int, key: str = "a") -> None:
    """So many minutes after 10:00 of the first day."""
    times = [at(10) + timedelta(minutes=minute) for minute in minutes]
    rows = [
        {"at": time, "key": key, "amount": amount, "_event_date": time.date()} for time in times
    ]
    table = pa.Table.from_pylist(rows, COLUMNS)
    write_deltalake(uri, table, partition_by=["_event_date"], mode="append")


@dataclass
class OfSessions(Windows):
    session: str = "10 minutes"

    @property
    def operator(self) -> Any:
        content = {
            "window": {"session": self.session},
            "group_by": ["key"],
            "measures": {"total": "sum(amount)"},
            "output_mode": "append",
        }
        return Sessions("at", SessionTable.model_validate(content))

    @property
    def bronze(self) -> str:
        return str(self.folder / "bronze")

    def known(self) -> Row:
        """What gold holds of the rows of 10:00 and 10:04."""
        return window(at(10), 2, key="a", total=2) | {"window_end": at(10, 14)}

    def to_compute(self, closed_to: Any) -> list[Row]:
        """Of what the newest commit of bronze touches, in a run that closes nothing."""
        bronze, changes, gold = map(DeltaTable, (self.bronze, self.changes_uri, self.gold_uri))
        version, close = bronze.version(), millis(closed_to)
        excluded = Excluded.of(self.operator.rows_in(bronze), TablePlace(self.bronze), changes, 1)
        batch = BatchRead(1, version, version, close, close)
        at_close = Frontiers(close, close, 0, None)
        found = to_compute(excluded, gold, changes, self.state(), [batch], at_close)
        return [dict(row) for row in found.rows.to_pylist()]

    def state(self) -> Any:
        return gold_state(self.gold_table())


@dataclass
class OfJoins(OfSessions):
    measures: Mapping[str, T.DataType] = field(
        default_factory=lambda: {"total": T.LongType(), "matches": T.LongType()}
    )

    @property
    def operator(self) -> Any:
        content = {
            "join": {"with": "other", "on": {"key": "key"}, "within": "1 minute", "type": "inner"},
            "window": {"length": "10 minutes"},
            "group_by": ["key"],
            "measures": {"total": "sum(amount)"},
            "output_mode": "append",
        }
        joins = Joins("at", JoinTable.model_validate(content), "at", timedelta(0))
        other = str(self.folder / "other")
        if not DeltaTable.is_deltatable(other):
            ingest(other, 5, 0, 4)
        return joins.with_inputs({OTHER: InputTable(DeltaTable(other), TablePlace(other))})

    def known(self) -> Row:
        return window(at(10), 2, key="a", total=2, matches=2)


@pytest.mark.parametrize("kind", [OfSessions, OfJoins])
def test_what_late_rows_touch_is_computed_though_its_bounds_and_numbers_are_known(
    tmp_path: Path, kind: type[OfSessions]
) -> None:
    """Rows that were deleted from bronze and landed again are as many as before, with others."""
    table = kind(tmp_path)
    ingest(table.bronze, 1, 0, 4)
    table.change(table.known())
    table.publish_at(at(12))
    DeltaTable(table.bronze).delete("key = 'a'")
    ingest(table.bronze, 1000, 0, 4)
    (found,) = table.to_compute(closed_to=at(12))
    assert (found["window_start"], found["rows"]) == (at(10), 2)


@pytest.mark.parametrize("others", [(), (19,)], ids=["alone", "beside-another-key"])
def test_a_session_that_the_stream_closes_without_its_late_row_is_computed_with_it(
    tmp_path: Path, others: Sequence[int]
) -> None:
    """That of day 13 came late in a former run, whose repair put the whole session into gold."""
    table = OfSessions(tmp_path, session="5 days")

    def session(key: str, first: int, last: int, rows: int) -> Row:
        end = at(0, day=last) + timedelta(days=5)
        return window(at(0, day=first), rows, key=key, total=rows) | {"window_end": end}

    def minutes_to(day: int) -> int:
        return (at(0, day=day) - at(10)) // timedelta(minutes=1)

    ingest(table.bronze, 1, *(minutes_to(day) for day in range(1, 21)))
    table.change(session("a", 1, 20, 20))
    table.publish_at(at(0, day=1))
    ingest(table.bronze, 1, minutes_to(19), key="b")
    table.change(session("a", 1, 20, 19), *(session("b", day, day, 1) for day in others))
    found = table.to_compute(closed_to=at(0, day=1))
    assert [(one["key"], one["rows"]) for one in found] == [("a", 20)]


def test_a_late_row_of_a_session_that_nobody_knows_is_left_to_the_query(tmp_path: Path) -> None:
    table = OfSessions(tmp_path)
    ingest(table.bronze, 1, 0, 9, 18)
    ingest(table.bronze, 1, 4)
    assert table.to_compute(closed_to=at(10, 5)) == []
