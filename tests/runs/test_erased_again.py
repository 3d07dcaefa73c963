"""What erasures reject is known before anything is read, or nothing is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.kit.running import Place, clicks
from tidemark.errors import ErasedUntold, MigrationRefused
from tidemark.judge.erased import Columns, KeyedDigests, fingerprint, row_digests, values_table
from tidemark.ledger.erased import Digests, Erased, erasures, record_place
from tidemark.recompute.table_change import change_of
from tidemark.runs.contract.check import admit, record_contracts
from tidemark.runs.erased_again import erased_again

KEY = "k" * 32
BY_KEY: Columns = (("key", "text"),)
BY_AMOUNT: Columns = (("amount", "whole number"),)


def kept(columns: Columns, kind: str, *values: Any, key: str = KEY) -> Digests:
    rows = values_table({columns[0][0]: kind}, [(one,) for one in values])
    return Digests(columns=columns, key=fingerprint(key), digests=row_digests(key, columns, rows))


def recorded(place: Place, name: str, again: Digests | None) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    one = Erased(id=name, at=at, by="Ada", reason="a request", rows={"bronze": 1}, again=again)
    file = Path(record_place(place.warehouse, name))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(one.model_dump_json(indent=1))


def asked(place: Place) -> KeyedDigests | None:
    return erased_again(place.pipeline, place.settings, place.warehouse)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "root", erasure_key=KEY)


def test_none_is_rejected_where_no_erasure_asks_for_it(place: Place) -> None:
    assert asked(place) is None
    recorded(place, "1", None)
    place.erasure_key = None
    assert asked(place) is None
    # A record of before says nothing of it.
    file = Path(record_place(place.warehouse, "1"))
    file.write_text(file.read_text().replace(',\n "again": null', ""))
    assert "again" not in file.read_text()
    assert [one.again for one in erasures(place.warehouse)] == [None]


def test_all_erasures_reject_together(place: Place) -> None:
    recorded(place, "1", kept(BY_KEY, "string", "x"))
    recorded(place, "2", None)
    recorded(place, "3", kept(BY_KEY, "string", "y", "z"))
    recorded(place, "4", kept(BY_AMOUNT, "long", 7))
    found = asked(place)
    assert found is not None
    assert found.columns == ("amount", "key")
    assert {columns: len(of) for columns, of in found.digests.items()} == {BY_KEY: 3, BY_AMOUNT: 1}
    rows = pa.table({"key": ["x", "a", None, "z"], "amount": [1, 7, 7, 1]})
    assert found.hits(rows).tolist() == [True] * 4
    assert found.hits(rows.slice(1, 1).set_column(1, "amount", [[1]])).tolist() == [False]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"erasure_key": None}, "the key is not there. Give it as TIDEMARK_ERASURE_KEY."),
        ({"erasure_key": "o" * 32}, "TIDEMARK_ERASURE_KEY is another key"),
        ({"columns": {"at": "timestamp"}}, "no column key any more that is a text"),
        ({"columns": {"at": "timestamp", "key": "long"}}, "no column key any more that is a text"),
        ({"columns": {"at": "timestamp", "Key": "string"}}, "no column key any more"),
    ],
)
def test_what_cannot_be_told_stops(place: Place, changes: dict[str, Any], words: str) -> None:
    recorded(place, "1", kept(BY_KEY, "string", "x"))
    if "columns" in changes:
        source = {**clicks()["source"], "columns": changes["columns"]}
        measures = {"per_10m": {"window": {"length": "1 hour"}, "measures": {"n": "count(*)"}}}
        place.content = clicks(source=source, tables=measures)
    else:
        place.erasure_key = changes["erasure_key"]
    with pytest.raises(ErasedUntold) as failed:
        asked(place)
    assert words in str(failed.value)
    assert str(failed.value).endswith(f"takes `again` out of {record_place(place.warehouse, '1')}.")
    assert KEY not in str(failed.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: text.index('"again"')].rstrip() + "}",
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: "\xff",
    ],
    ids=["a comma is left", "of a newer version", "no UTF-8"],
)
def test_a_record_that_cannot_be_read_stops_and_is_named(
    place: Place, damage: Callable[[str], str]
) -> None:
    recorded(place, "1", kept(BY_KEY, "string", "x"))
    file = Path(record_place(place.warehouse, "1"))
    file.write_bytes(damage(file.read_text()).encode("latin-1"))
    with pytest.raises(ErasedUntold) as failed:
        asked(place)
    assert str(failed.value).startswith(f"{file} cannot be read as the record of an erasure (")
    assert "\n" not in str(failed.value)
    assert not failed.value.retry_can_help


def test_a_source_that_is_followed_by_now_stops(place: Place) -> None:
    recorded(place, "1", kept(BY_KEY, "string", "x"))
    source = {
        "delta": {"table": "there", "changes": "follow", "key": "key"},
        "columns": {"at": "timestamp", "key": "string not null"},
        "event_time": {"column": "at"},
    }
    measures = {"per_10m": {"window": {"length": "1 hour"}, "measures": {"n": "count(*)"}}}
    place.content = clicks(source=source, tables=measures)
    with pytest.raises(ErasedUntold, match="is followed now"):
        asked(place)


@pytest.mark.parametrize(
    ("wider", "is_taken"), [("long", True), ("double", False), ("decimal(10,0)", False)]
)
def test_no_migration_makes_a_column_wider_by_which_rows_could_not_be_told_any_more(
    place: Place, wider: str, is_taken: bool
) -> None:
    """There would be no way back: bronze is written again."""
    source = clicks()["source"]
    source["columns"]["amount"] = "int"
    place.content = clicks(source=source)
    place.windows()
    record_contracts(admit(place.pipeline, place.settings), place.warehouse)
    for query in ("ingest", "per_10m"):
        offsets = Path(place.places.contract(query, 1).removesuffix(".contract.json"), "offsets")
        offsets.mkdir(parents=True)
        (offsets / "0").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{}')
    recorded(place, "1", kept(BY_AMOUNT, "int", 7))
    source["columns"]["amount"] = wider
    if is_taken:
        assert change_of(place.pipeline, place.settings, "per_10m", alone=False)
        assert asked(place) is not None
        return
    with pytest.raises(MigrationRefused) as refused:
        change_of(place.pipeline, place.settings, "per_10m", alone=False)
    assert "the file has no column amount any more that is a whole number. Put it back." in str(
        refused.value
    )
    assert "Nothing was written." in str(refused.value)
    # Who lets them in again may have it wider.
    recorded(place, "1", None)
    assert change_of(place.pipeline, place.settings, "per_10m", alone=False)


def test_a_column_that_became_wider_is_told_as_before(place: Place) -> None:
    recorded(place, "1", kept(BY_AMOUNT, "int", 7))
    found = asked(place)
    assert found is not None
    assert found.hits(pa.table({"amount": [7, 8]})).tolist() == [True, False]
