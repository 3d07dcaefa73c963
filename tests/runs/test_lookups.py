"""The copies of lookups: what goes into one, and which number it has."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.running import Place, clicks
from tidemark.errors import LookupBroken
from tidemark.operators.lookups import copies_of, copy_of_number, newest_copy
from tidemark.runs.lookups import copy_lookups, why_to_copy
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.notes import LookupNote, as_metadata

HEADER = "key,name,since,until"


def place_of(root: Path, *rows: str, **lookup: Any) -> Place:
    said = {
        "file": "dims/a.csv",
        "on": "key",
        "columns": {"name": "string", "since": "date", "until": "timestamp"},
    } | lookup
    table = {
        "window": {"length": "10 minutes"},
        "measures": {"name": "max(dims.name)"},
    }
    write(root, *rows)
    return Place(root, clicks(lookup={"dims": said}, tables={"t": table}))


def write(root: Path, *rows: str) -> None:
    (root / "dims").mkdir(exist_ok=True)
    (root / "dims/a.csv").write_text("\n".join([HEADER, *rows]))


def copied(place: Place) -> list[dict[str, Any]]:
    list(copy_lookups(place.run("copy")))
    newest = newest_copy(place.warehouse.lookup("dims"))
    assert newest is not None
    return dataset_of(newest.table).to_table().to_pylist()


def test_rows_with_null_keys_match_nothing_and_are_left_out(tmp_path: Path) -> None:
    place = place_of(tmp_path, "b,two,,", ",none,,", "a,one,,")
    assert [(row["_on_0"], row["name"]) for row in copied(place)] == [("a", "one"), ("b", "two")]


def test_a_lookup_without_a_row_is_one(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    assert copied(place) == []
    write(tmp_path, "a,one,,")
    assert len(copied(place)) == 1
    write(tmp_path)
    assert copied(place) == []


def test_a_row_holds_up_to_the_next_one_of_its_key_or_to_its_own_end(tmp_path: Path) -> None:
    rows = ("a,two,2026-07-02,", "b,x,2026-07-03,2026-07-04T12:00:00Z", "a,one,2026-07-01,")
    days = {number: datetime(2026, 7, number, tzinfo=UTC) for number in (1, 2, 3)}
    found = copied(place_of(tmp_path, *rows, as_of="since"))
    assert [(row["name"], row["_from"], row["_to"]) for row in found] == [
        ("one", days[1], days[2]), ("two", days[2], None), ("x", days[3], None)
    ]  # fmt: skip
    found = copied(place_of(tmp_path, rows[1], rows[2], as_of=["since", "until"]))
    assert [(row["_from"], row["_to"]) for row in found] == [
        (days[1], None), (days[3], datetime(2026, 7, 4, 12, tzinfo=UTC))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "as_of", "told"),
    [
        (["a,one,,", "a,two,,"], (), "several rows of one key, .*: key=a"),
        (["a,one,,"], "since", "begin at no time"),
        (["a,one,2026-07-01,", "a,two,2026-07-01,"], "since", "at the same time"),
        (["a,x,2026-07-02,2026-07-02T00:00:00Z"], ["since", "until"], "end before they begin"),
        (["a,x,2026-07-01,", "a,y,2026-07-02,"], ["since", "until"], "at the same time"),
        (
            ["a,x,2026-07-01,2026-07-02T00:00:01Z", "a,y,2026-07-02,"],
            ["since", "until"],
            "at the same time",
        ),
    ],
)
def test_two_rows_of_a_key_at_a_time_are_told(
    tmp_path: Path, rows: list[str], as_of: Any, told: str
) -> None:
    place = place_of(tmp_path, *rows, as_of=as_of)
    with pytest.raises(LookupBroken, match=told):
        list(copy_lookups(place.run("copy")))
    assert newest_copy(place.warehouse.lookup("dims")) is None


def test_a_number_stands_for_one_content(tmp_path: Path) -> None:
    place = place_of(tmp_path, "a,one,,", "b,two,,")
    run, copy = place.run("copy"), place.warehouse.lookup("dims")
    assert why_to_copy(run) == "the lookup dims was not copied yet as the pipeline's file has it"
    assert list(copy_lookups(run)) == ["lookup dims: 2 rows"]
    assert why_to_copy(run) is None
    assert list(copy_lookups(run)) == []
    # Another file of the same rows.
    write(tmp_path, "b,two,,", "a,one,,")
    assert why_to_copy(run) == "the lookup dims is another than its copy"
    assert list(copy_lookups(run)) == ["lookup dims: as it was"]
    (first,) = (one.number for one in copies_of(copy))
    write(tmp_path, "a,one,,")
    list(copy_lookups(run))
    assert [one.number for one in copies_of(copy)] == [first + 1, first]
    # No gold names the first one.
    assert copy_of_number(copy, first) is None
    assert copy_of_number(copy, first + 1) is not None


def test_another_definition_is_another_copy(tmp_path: Path) -> None:
    place = place_of(tmp_path, "a,one,2026-07-01,")
    copied(place)
    changed = place_of(tmp_path, "a,one,2026-07-01,", columns={"name": "string"})
    assert why_to_copy(changed.run("copy"), only_missing=True) is not None
    copied(changed)
    assert why_to_copy(changed.run("copy"), only_missing=True) is None
    newest = newest_copy(place.warehouse.lookup("dims"))
    assert newest is not None
    assert len([*copies_of(place.warehouse.lookup("dims"))]) == 2
    # Copies of any age can be read.
    kept = newest.table.metadata().configuration["delta.deletedFileRetentionDuration"]
    assert kept == "interval 36500 days"
    assert newest.is_of(changed.pipeline.lookups_of("t")["dims"])


def test_a_table_that_was_put_back_and_written_to_since_is_another(tmp_path: Path) -> None:
    table = tmp_path / "dims"
    place = of_a_table(tmp_path)
    say(table, "old")
    shutil.copytree(table, tmp_path / "backup")
    say(table, "right")
    before = DeltaTable(table)
    assert [row["name"] for row in copied(place)] == ["right"]
    shutil.rmtree(table)
    shutil.copytree(tmp_path / "backup", table)
    say(table, "other")
    now = DeltaTable(table)
    assert (now.metadata().id, now.version()) == (before.metadata().id, before.version())
    assert why_to_copy(place.run("copy")) == "the lookup dims is another than its copy"
    assert [row["name"] for row in copied(place)] == ["other"]


def test_a_copy_that_notes_no_entry_of_the_log_is_looked_at_once_more(tmp_path: Path) -> None:
    place = of_a_table(tmp_path)
    say(tmp_path / "dims", "one")
    copied(place)
    copy = place.warehouse.lookup("dims")
    newest = newest_copy(copy)
    assert newest is not None
    # As all were noted before.
    former = newest.source.rpartition(" ")[0]
    note = LookupNote(number=newest.number, source=former, definition=newest.definition)
    rows = dataset_of(newest.table).to_table().slice(0, 0)
    noted = CommitProperties(custom_metadata=as_metadata(note))
    write_deltalake(newest.table, rows, mode="append", commit_properties=noted)
    assert why_to_copy(place.run("copy")) == "the lookup dims is another than its copy"
    assert list(copy_lookups(place.run("copy"))) == ["lookup dims: as it was"]
    assert why_to_copy(place.run("copy")) is None
    assert [one.number for one in copies_of(copy)] == [newest.number]


def of_a_table(root: Path) -> Place:
    lookup = {"table": "dims", "on": "key", "columns": {"name": "string"}}
    tables = {"t": {"window": {"length": "10 minutes"}, "measures": {"name": "max(dims.name)"}}}
    return Place(root, clicks(lookup={"dims": lookup}, tables=tables))


def say(table: Path, name: str) -> None:
    rows = pa.table({"key": ["a"], "name": [name]})
    write_deltalake(str(table), rows, mode="overwrite")
