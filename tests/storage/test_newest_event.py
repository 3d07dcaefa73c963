"""The newest event of a bronze, whose log tells bounds of its first 32 columns alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.kit.windows import at
from tidemark.pipeline.instants import epoch_ms
from tidemark.storage.delta.newest_event import newest_event, newest_event_ms
from tidemark.storage.delta.place import TablePlace

EVENTS = [at(9), at(10, 40), at(10)]


def bronze(place: TablePlace, before: int, rows: int) -> None:
    columns = {f"c{number}": pa.array(["x"] * rows, pa.string()) for number in range(before)}
    times = pa.array(EVENTS[:rows], pa.timestamp("us", "UTC"))
    dates = pa.array([event.date() for event in EVENTS[:rows]], pa.date32())
    table = pa.table({**columns, "at": times, "_event_date": dates})
    write_deltalake(place.uri, table, mode="append", partition_by=["_event_date"])


@pytest.mark.parametrize("before", [0, 31, 32, 40])
def test_the_newest_event_is_known_however_many_columns_stand_before_its_time(
    tmp_path_factory: pytest.TempPathFactory, before: int
) -> None:
    place = TablePlace(str(tmp_path_factory.mktemp("bronze")))
    assert newest_event(place, "at") is None
    bronze(place, before, 0)
    assert newest_event_ms(place.existing(), "at") is None
    bronze(place, before, 3)
    bronze(place, before, 1)
    assert newest_event_ms(place.existing(), "at") == epoch_ms(at(10, 40))
    assert newest_event(place, "at") == at(10, 40)
