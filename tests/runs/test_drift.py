"""What comes in that a pipeline's file does not name, told by bronze and rejects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.kit.running import Place
from tidemark.runs.status import drift
from tidemark.runs.status.drift import NewField, SourceDrift, WrongColumn, source_drift
from tidemark.upkeep.maintenance.carry_out import drop_rejects

T0 = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def batch(place: Place, number: int, extras: Sequence[Any], details: Sequence[str] = ()) -> None:
    """A batch's rows, as far as they are looked at: `extras` of bronze, wrong types of rejects."""
    time = T0 + timedelta(hours=number)
    texts = [None if one is None else json.dumps(one) for one in extras]
    _append(place.places.bronze, {"_extra": pa.array(texts, pa.string())}, number, time)
    rejects: dict[str, pa.Array[Any]] = {
        "reason": pa.array(["wrong type"] * len(details), pa.string()),
        "detail": pa.array(details, pa.string()),
    }
    _append(place.places.rejects, rejects, number, time)


def _append(uri: str, columns: Mapping[str, pa.Array[Any]], number: int, time: datetime) -> None:
    rows = len(next(iter(columns.values())))
    own = {
        "_batch": pa.array([number] * rows, pa.int64()),
        "_batch_time": pa.array([time] * rows, pa.timestamp("us", "UTC")),
    }
    write_deltalake(uri, pa.table({**columns, **own}), mode="append")


def test_fields_that_no_column_takes_are_told_with_their_types(place: Place) -> None:
    batch(place, 0, [None, {"n": 1}, {"n": 2, "coupon": "x"}, {"o": {"a": 1}}])
    batch(
        place, 1, [{"n": 1.5, "mixed": 1}, {"mixed": "x"}, {"b": True, "n": None}, {"none": None}]
    )
    hour = timedelta(hours=1)
    assert source_drift(place.warehouse) == SourceDrift(
        8,
        (
            NewField("n", 0.5, T0, "double"),
            NewField("mixed", 0.25, T0 + hour, None),
            NewField("b", 0.125, T0 + hour, "boolean"),
            NewField("coupon", 0.125, T0, "string"),
            NewField("none", 0.125, T0 + hour, None),
            NewField("o", 0.125, T0, None),
        ),
    )


def test_whole_numbers_that_no_long_holds_are_told_with_a_type_that_does(place: Place) -> None:
    long, big = 2**63, 123456789012345678901234567890
    edges = {"id": long - 1, "past": long, "below": -long - 1, "big": big, "text": f"{big}"}
    batch(place, 0, [edges | {"mixed": big, "huge": 10**38}])
    batch(place, 1, [{"id": -long, "past": 1, "below": 1, "big": -big, "mixed": 0.5}])
    assert {one.name: one.type for one in source_drift(place.warehouse).fields} == {
        "id": "long",
        **dict.fromkeys(("past", "below", "big"), "decimal(38,0)"),
        "text": "string",
        **dict.fromkeys(("mixed", "huge"), None),
    }


def test_columns_of_another_type_are_told_from_a_hundredth_of_the_rows_on(place: Place) -> None:
    details = [f"amount should be long, found {n}.5" for n in range(5)]
    label = "user (field `a.b should be c`)"
    batch(place, 0, [None] * 490, [*details, "key should be string, found 5", "no form of ours"])
    batch(place, 1, [None], [*details[:1], f'{label} should be int, found "x"'])
    found = source_drift(place.warehouse)
    assert found.rows == 500
    assert found.wrong == (WrongColumn("amount", 6 / 500, details[0]),)


def test_only_the_newest_batches_and_so_many_rows_are_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(15):
        batch(place, number, [{f"f{number:02}": 1}])
    assert [one.name for one in source_drift(place.warehouse).fields] == [
        f"f{number:02}" for number in range(5, 15)
    ]
    monkeypatch.setattr(drift, "LOOKED_AT", 3)
    assert source_drift(place.warehouse).rows == 3


def test_a_share_is_one_of_all_rows_also_where_not_all_are_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "LOOKED_AT", 5)
    batch(place, 0, [None] * 90, [f"amount should be long, found {n}.5" for n in range(10)])
    (wrong,) = source_drift(place.warehouse).wrong
    assert wrong.share == 0.1
    batch(place, 1, [None] * 1_000)
    assert source_drift(place.warehouse).wrong == ()


def test_a_pipeline_without_rows_has_come_to_nothing(place: Place) -> None:
    assert source_drift(place.warehouse) == SourceDrift()
    batch(place, 0, [])
    assert source_drift(place.warehouse) == SourceDrift()


def test_batches_whose_rejects_were_dropped_tell_no_share(place: Place) -> None:
    detail = "amount should be long, found x"
    batch(place, 0, [None] * 3, [detail])
    batch(place, 1, [None], [detail])
    drop_rejects(place.warehouse.rejects, 0)
    found = source_drift(place.warehouse)
    assert (found.rows, [one.share for one in found.wrong]) == (2, [0.5])
