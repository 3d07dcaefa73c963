"""Rows that an act took along beside its own are missing from what the ledger accounts for, as the
page on retractions asks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.end_to_end.pages import examples_under, page
from tests.kit.running import Place
from tests.kit.windows import at, millis
from tidemark.ledger.ledger import LedgerLine, write_ledger
from tidemark.ledger.lines import erasure_line, ingest_lines, replay_line, retraction_line
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.rows import Rows

TITLE = "Were other rows taken along?"
ACTS = [f"20260702T1{number}0000Z" for number in range(5)]


def rows(*keys: str, day: int = 1) -> pa.Table:
    dates = [at(0, day=day).date()] * len(keys)
    return pa.table({"key": keys, "_event_date": pa.array(dates, pa.date32())})


def ingested(place: Place, batch: int, accepted: pa.Table, rejected: pa.Table) -> None:
    """A batch of ingest, and its line by what its commits say."""
    counts = Rows(
        read=len(accepted) + len(rejected),
        accepted=len(accepted),
        rejected={"malformed": len(rejected)},
    )
    note = as_metadata(IngestNote(query="q", batch=batch, rows=counts, run="run"))
    noted = CommitProperties(custom_metadata=note)
    for uri, table in ((place.places.bronze, accepted), (place.places.rejects, rejected)):
        write_deltalake(uri, table, mode="append", commit_properties=noted)
    tables = place.warehouse.bronze.existing(), place.warehouse.rejects.existing()
    account(place, *ingest_lines(*tables, "q", batch - 1))


def account(place: Place, *lines: LedgerLine) -> None:
    write_ledger(place.warehouse.ledger, place.name, "run", millis(at(12)), lines, at(12))


def moved(source: str, to: str | None, key: str, table: pa.Table) -> None:
    """Rows of a key leave a table, for another one or for good."""
    DeltaTable(source).delete(f"key = '{key}'")
    if to is not None:
        write_deltalake(to, table, mode="append")


def answer(place: Place) -> dict[str, Any]:
    (sql,) = examples_under(page("retract.md"), TITLE, "sql")
    places = place.places
    with duckdb.connect() as connection:
        for name in ("bronze", "retracted", "ledger"):
            connection.register(name, place.table(getattr(places, name)))
        found = connection.sql(sql)
        (row,) = found.fetchall()
        return dict(zip(found.columns, row, strict=True))


def test_rows_that_an_act_took_along_are_missing_and_nothing_else_is(tmp_path: Path) -> None:
    place = Place(tmp_path, name="ad_impressions")
    bronze, retracted = place.places.bronze, place.places.retracted
    ingested(place, 0, rows("a", "b", "c", "d"), rows("x"))
    ingested(place, 1, rows("e", "f", "g", day=2), rows("y", "z"))
    moved(bronze, retracted, "a", rows("a"))
    account(place, retraction_line(ACTS[0], None, 1, 1))
    moved(bronze, retracted, "b", rows("b"))
    account(place, retraction_line(ACTS[1], None, 1, 1))
    moved(retracted, bronze, "b", rows("b"))
    account(place, retraction_line(ACTS[2], ACTS[1], 1, 1))
    write_deltalake(bronze, rows("y", day=2), mode="append")
    account(place, replay_line(ACTS[3], 1, 1))
    moved(bronze, None, "c", rows("c"))
    account(place, erasure_line(ACTS[4], 1, 1))
    # What a rewind has undone counts no more.
    undone = LedgerLine(kind="ingest", source="q", position=9, batch=9, read=5, accepted=5)
    account(place, undone)
    DeltaTable(place.places.ledger).update({"rewound": "'rewind'"}, predicate="batch = 9")
    whole = {"in_bronze": 6, "in_retracted": 1, "accounted_for": 7, "missing": 0}
    assert answer(place) == whole
    # A row of another date goes too, where one file's name stood for both.
    moved(bronze, None, "g", rows("g", day=2))
    assert answer(place) == whole | {"in_bronze": 5, "missing": 1}
