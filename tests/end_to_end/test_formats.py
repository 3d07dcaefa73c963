"""A pipeline over any format comes to what it comes to over JSON lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kit.formats import avro_bytes, record
from tests.kit.running import Place, clicks, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    {"at": f"2026-07-01T10:{n % 60:02}:00Z", "key": f'k"{n % 3}, é', "amount": n}
    for n in range(200)
]


def place_of(root: Path, ending: str, **source: Any) -> Place:
    content = clicks()
    entries = {**content["source"], "files": f"landing/*.{ending}", **source}
    return Place(root, {**content, "source": entries})


def land(place: Place, ending: str, name: str, rows: list[dict[str, Any]]) -> None:
    file = place.root / "landing" / f"{name}.{ending}"
    file.parent.mkdir(parents=True, exist_ok=True)
    if ending == "json":
        place.land(file.name, rows)
    elif ending == "document":
        file.write_text(json.dumps(rows, indent=2))
    elif ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif ending == "avro":
        file.write_bytes(avro_bytes(schema_of(rows[0]), rows, codec="snappy"))
    else:
        with file.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]), delimiter=";")
            writer.writeheader()
            writer.writerows(rows)


def schema_of(row: dict[str, Any], name: str = "row") -> dict[str, Any]:
    kinds: dict[type, Any] = {str: "string", int: "long"}
    fields = {
        field: schema_of(value, field.replace(" ", "_")) if isinstance(value, dict)
        else kinds[type(value)]
        for field, value in row.items()
    }  # fmt: skip
    return record(name, **fields)


def shown(place: Place) -> tuple[list[Any], list[Any]]:
    bronze = place.bronze().select(["at", "key", "amount"]).to_pylist()
    gold = place.gold().select(["window_start", "key", "events", "amount"]).to_pylist()
    return sorted(map(repr, bronze)), sorted(map(repr, gold))


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_same_rows_come_to_the_same_tables_in_each_format(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    from tidemark.streaming.ingest import judged_lines

    if not few:
        monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    found = {}
    for ending, source in (
        ("json", {}),
        ("csv", {"format": {"csv": {"delimiter": ";"}}}),
        ("document", {"format": "json_document"}),
        ("parquet", {}),
        ("avro", {}),
    ):
        place = place_of(tmp_path / ending, ending, **source)
        land(place, ending, "one", ROWS[:150])
        assert succeed(spark, place, "one").rows.accepted == 150
        # Another order of the fields.
        land(place, ending, "two", [dict(reversed(row.items())) for row in ROWS[150:]])
        assert succeed(spark, place, "two").rows.accepted == 50
        found[ending] = shown(place)
        if ending != "json":
            # A record's number, from 0.
            places = sorted(row["_place"] for row in place.bronze().to_pylist())
            assert places == sorted([*range(150), *range(50)])
    assert all(tables == found["json"] for tables in found.values())


def test_columns_are_the_fields_of_a_source_as_it_names_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    plain = place_of(tmp_path / "plain", "json")
    land(plain, "json", "one", ROWS)
    succeed(spark, plain, "one")
    headed = {
        "at": {"type": "timestamp", "field": ["When.UTC"]},
        "key": {"type": "string", "field": "The key", "trim": True},
        "amount": {"type": "long", "field": "Amount (€)", "nulls": ["n/a"]},
    }
    nested = {
        "at": {"type": "timestamp", "field": "meta.at"},
        "key": {"type": "string", "field": "payload.key_of_it"},
        "amount": {"type": "long", "field": "payload.n.amount"},
    }
    for ending, columns in (
        ("csv", headed),
        ("json", nested),
        ("parquet", nested),
        ("avro", nested),
    ):
        rows = [
            {"When.UTC": row["at"], "The key": f" {row['key']} ", "Amount (€)": row["amount"]}
            if columns is headed
            else {
                "meta": {"at": row["at"]},
                "payload": {"key_of_it": row["key"], "n": {"amount": row["amount"]}},
            }
            for row in ROWS
        ]
        more = {"format": {"csv": {"delimiter": ";"}}} if ending == "csv" else {}
        place = place_of(tmp_path / ending, ending, columns=columns, **more)
        land(place, ending, "one", rows)
        assert succeed(spark, place, "one").rows.accepted == len(ROWS)
        assert shown(place) == shown(plain)
        assert place.bronze()["_extra"].null_count == len(ROWS)


def test_a_bad_file_is_a_reject_and_good_ones_beside_it_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = place_of(tmp_path, "*", files="landing/*")
    land(place, "parquet", "good", ROWS[:2])
    place.land("bad.parquet", ["no Parquet"])
    place.land("bad.avro", ["no Avro"])
    place.land("twice.csv", ["at,key,key", "a,b,c"])
    place.land("short.csv", ["at,key,amount", "2026-07-01T10:00:00Z,a", "2026-07-01T10:00:00Z,b,x"])
    rows = succeed(spark, place).rows
    assert rows.accepted == 2
    assert rows.rejected == {"unreadable file": 3, "malformed": 1, "wrong type": 1}
    told = {row["reason"]: (row["raw"], row["detail"]) for row in place.rejects().to_pylist()}
    assert told["malformed"] == ("2026-07-01T10:00:00Z,a", "2 fields, the header has 3")
    assert told["wrong type"] == ("2026-07-01T10:00:00Z,b,x", 'amount should be long, found "x"')
