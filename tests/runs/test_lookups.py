"""The copies of lookups: what goes into one, and which number it has."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.running import Place, clicks
from tidemark.errors import LookupBroken
from tidemark.operators.lookups import copies_of, copy_of_number, newest_copy
from tidemark.runs.lookups import copy_lookups, note_copies, why_to_copy
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.fence import fence_tables
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


def test_a_copy_tells_the_bounds_of_its_days(tmp_path: Path) -> None:
    """Of row groups that cannot hold what is looked for nothing is read."""
    place = place_of(tmp_path, "a,one,2026-07-01,", "b,two,2026-07-03,")
    copied(place)
    files = pa.table(place.warehouse.lookup("dims").existing().get_add_actions(flatten=True))
    assert (files["min.since"].to_pylist(), files["max.since"].to_pylist()) == (
        [date(2026, 7, 1)], [date(2026, 7, 3)]
    )  # fmt: skip


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


def test_a_copy_below_a_root_with_a_blank_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    run = place_of(tmp_path / "a b", "a,one,,").run("copy")
    assert list(copy_lookups(run)) == ["lookup dims: 1 rows"]
    assert why_to_copy(run) is None


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


FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
DAY = 86_400_000_000


def of_parquet(root: Path, kind: str = "timestamp", as_of: Any = ("since", "until")) -> Place:
    place = place_of(
        root,
        file="dims/a.parquet",
        columns={"name": "string", "since": kind, "until": kind, "seen": kind},
        as_of=as_of,
    )
    say_times(root, 0, None)
    return place


def say_times(
    root: Path, since: int, until: int | None, seen: int = 0, name: str = "one", kind: Any = None
) -> None:
    kind = kind or pa.timestamp("us", "UTC")
    unit = 1 if pa.types.is_timestamp(kind) else DAY
    times = {
        column: pa.array([value], pa.int64() if unit == 1 else pa.int32()).cast(kind)
        for column, value in (
            ("since", since // unit),
            ("until", None if until is None else until // unit),
            ("seen", seen // unit),
        )
    }
    pq.write_table(pa.table({"key": ["a"], "name": [name], **times}), root / "dims/a.parquet")


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()], ids=str)
def test_rows_that_begin_or_end_outside_the_calendar_hold_up_to_its_ends(
    tmp_path: Path, kind: pa.DataType
) -> None:
    text = "date" if kind == pa.date32() else "timestamp"
    place = of_parquet(tmp_path, text)
    say_times(tmp_path, FIRST - DAY, LAST + DAY, kind=kind)
    (row,) = copied(place)
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert (row["_from"], row["_to"], row["until"]) == (first, None, None)
    assert row["since"] == (first if text == "timestamp" else first.date())
    # As it is where they are told within it.
    say_times(tmp_path, FIRST, LAST, kind=kind)
    (row,) = copied(place)
    assert row["_from"] == first
    assert row["_to"].year == 9999


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()], ids=str)
@pytest.mark.parametrize(
    ("since", "until", "seen", "column"),
    [
        (LAST + DAY, None, 0, "since"),
        (0, FIRST - DAY, 0, "until"),
        (0, None, LAST + DAY, "seen"),
        (0, None, FIRST - DAY, "seen"),
    ],
)
def test_other_times_outside_the_calendar_are_told(
    tmp_path: Path, kind: pa.DataType, since: int, until: int | None, seen: int, column: str
) -> None:
    place = of_parquet(tmp_path, "date" if kind == pa.date32() else "timestamp")
    say_times(tmp_path, since, until, seen, kind=kind)
    with pytest.raises(LookupBroken, match=f"outside the years .* in row 1, column `{column}`"):
        copied(place)


def test_text_of_csv_that_leaves_the_calendar_holds_for_ever(tmp_path: Path) -> None:
    end = "9999-12-31T23:59:59-05:00"
    place = place_of(tmp_path, f"a,one,2026-07-01,{end}", as_of=["since", "until"])
    (row,) = copied(place)
    assert (row["_to"], row["until"]) == (None, None)
    with pytest.raises(LookupBroken, match="column `until`"):
        copied(place_of(tmp_path, f"a,one,2026-07-01,{end}"))


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()], ids=str)
@pytest.mark.parametrize("mended", [False, True])
def test_a_former_copy_with_times_outside_the_calendar_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, mended: bool
) -> None:
    place = of_parquet(tmp_path, "date" if kind == pa.date32() else "timestamp")
    say_times(tmp_path, FIRST - DAY, LAST + DAY, LAST + DAY, kind=kind)
    with monkeypatch.context() as former:
        former.setattr("tidemark.runs.lookups._within_calendar", lambda _, rows: rows)
        list(copy_lookups(place.run("copy")))
    first = newest_copy(place.warehouse.lookup("dims"))
    assert first is not None
    assert first.is_readable()
    say_times(tmp_path, *(0, None) if mended else (FIRST - DAY, LAST + DAY), name="two", kind=kind)
    assert [row["name"] for row in copied(place)] == ["two"]


def test_columns_whose_names_differ_in_case_are_two(tmp_path: Path) -> None:
    place = place_of(tmp_path, on={"key": "KEY"}, columns={"key": "string", "name": "string"})
    (tmp_path / "dims/a.csv").write_text("KEY,key,name\na,one,x\nb,two,y\n")
    assert [(row["_on_0"], row["key"]) for row in copied(place)] == [("a", "one"), ("b", "two")]


def of_gold(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """As where gold names this copy."""
    monkeypatch.setattr("tidemark.runs.lookups._pinned", lambda *_: iter([-1, number]))


def test_a_folder_that_was_put_back_gets_a_number_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(tmp_path, "a,one,,")
    copied(place)
    folder = Path(place.warehouse.lookup("dims").uri)
    (first,) = copies_of(place.warehouse.lookup("dims"))
    shutil.copytree(folder, tmp_path / "backup")
    write(tmp_path, "a,two,,")
    copied(place)
    of_gold(monkeypatch, first.number + 1)
    assert why_to_copy(place.run("copy")) is None
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    write(tmp_path, "a,one,,")
    for only_missing in (False, True):
        why = why_to_copy(place.run("copy"), only_missing)
        assert why is not None
        assert why.startswith("the copy of the lookup dims is older than the one that gold names")
    assert list(copy_lookups(place.run("copy"))) == ["lookup dims: 1 rows"]
    newest = newest_copy(place.warehouse.lookup("dims"))
    assert newest is not None
    assert newest.number == first.number + 2
    assert why_to_copy(place.run("copy")) is None


@pytest.mark.parametrize("same", [True, False])
def test_a_copy_that_has_lost_its_files_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    place = place_of(tmp_path, "a,one,,")
    copied(place)
    (first,) = copies_of(place.warehouse.lookup("dims"))
    of_gold(monkeypatch, first.number)
    for file in Path(first.place.uri).glob("*.parquet"):
        file.unlink()
    write(tmp_path, "a,one,," if same else "a,two,,")
    why = "the copy of the lookup dims cannot be read, or files of it are lost"
    assert why_to_copy(place.run("copy"), only_missing=True) == why
    assert [row["name"] for row in copied(place)] == ["one" if same else "two"]
    newest = newest_copy(first.place)
    assert newest is not None
    assert newest.number == first.number + 1
    assert why_to_copy(place.run("copy")) is None


def test_the_newest_commit_is_made_to_say_which_copy_it_is(tmp_path: Path) -> None:
    place = place_of(tmp_path, "a,one,,")
    rows, copy, run = copied(place), place.warehouse.lookup("dims"), place.run("erase")
    (first,) = copies_of(copy)
    note_copies(run)
    assert copy.existing().version() == first.table.version()
    fence_tables([copy], 2)
    note_copies(run)
    (newest, *_) = copies_of(copy)
    assert newest.table.version() == copy.existing().version() == first.table.version() + 2
    assert (newest.number, newest.source) == (first.number, first.source)
    assert dataset_of(newest.table).to_table().to_pylist() == rows
    assert why_to_copy(run) is None


def of_a_table(root: Path) -> Place:
    lookup = {"table": "dims", "on": "key", "columns": {"name": "string"}}
    tables = {"t": {"window": {"length": "10 minutes"}, "measures": {"name": "max(dims.name)"}}}
    return Place(root, clicks(lookup={"dims": lookup}, tables=tables))


def say(table: Path, name: str) -> None:
    rows = pa.table({"key": ["a"], "name": [name]})
    write_deltalake(str(table), rows, mode="overwrite")
