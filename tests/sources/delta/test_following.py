"""What versions of a table changed together: as plain Python tells it, whoever wrote them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.running import clicks
from tidemark.errors import SourceRefused
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.problems import PipelineFileInvalid
from tidemark.pipeline.row_key import key_text
from tidemark.sources.delta.files import slice_of
from tidemark.sources.delta.following import (
    SourceChange,
    new_rows_text,
    read_new_rows,
    source_change,
)
from tidemark.sources.delta.offsets import Offset
from tidemark.sources.delta.planning import followed_offset, has_changes, unless_changed
from tidemark.sources.delta.table import SourceTable, open_table
from tidemark.sources.notes import FollowedVersions
from tidemark.sources.planned_source import Position

Held = dict[int | None, str]


class Table:
    """A Delta table and what it holds, row by row."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder)
        self.held: dict[int, str] = {}

    @property
    def source(self) -> SourceTable:
        return open_table(self.uri, {})

    @property
    def version(self) -> int:
        return DeltaTable(self.uri).version()

    def append(self, rows: dict[int, str]) -> None:
        write_deltalake(self.uri, as_rows(rows), mode="append")
        self.held |= rows

    def merge(self, rows: dict[int, str]) -> None:
        merging = DeltaTable(self.uri).merge(
            as_rows(rows), "s.id = t.id", source_alias="s", target_alias="t"
        )
        merging.when_matched_update_all().when_not_matched_insert_all().execute()
        self.held |= rows

    def delete(self, ids: list[int]) -> None:
        DeltaTable(self.uri).delete(f"id IN ({', '.join(map(str, [-1, *ids]))})")
        self.held = {one: text for one, text in self.held.items() if one not in ids}

    def since(self, version: int, *key: str) -> SourceChange:
        table = self.source
        offset = Offset(table.id, version + 1, table.newest + 1)
        return source_change(table, offset, key or ["id"])


def as_rows(rows: dict[int, str]) -> pa.Table:
    """`tens` and `side` are a key as `id` is."""
    columns = {
        "id": pa.array(rows, pa.int64()),
        "text": pa.array(rows.values(), pa.string()),
        "tens": pa.array([one // 10 for one in rows], pa.int64()),
        "side": pa.array([side(one) for one in rows], pa.string()),
    }
    return pa.table(columns)


def side(one: int) -> str:
    return f"{one % 10},~"


def read(table: SourceTable, found: SourceChange) -> dict[str, str]:
    """The rows that came, as ingest reads them."""
    rows: dict[str, str] = {}
    for new in found.new:
        part = slice_of(table, new.part, new.file, rows=new.rows)
        for piece in part.typed(1_000_000):
            places = piece.origin["_row"].to_pylist()
            assert set(places) <= set(new.rows)
            for row in piece.rows.to_pylist():
                assert str(row["id"]) not in rows
                rows[str(row["id"])] = row["text"]
    return rows


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_it_is_the_difference_of_two_snapshots_whatever_came_between(
    tmp_path_factory: pytest.TempPathFactory, draw: Random
) -> None:
    table = Table(tmp_path_factory.mktemp("followed") / "t")
    table.append(dict.fromkeys(range(draw.randint(1, 9)), "a"))
    before, version = dict(table.held), table.version
    for act in range(draw.randint(1, 6)):
        known = list(table.held)
        some = draw.sample(known, draw.randint(0, min(3, len(known))))
        next_id = 100 + 10 * act
        match draw.choice(["append", "merge", "delete", "pack", "back"]):
            case "append":
                table.append({next_id: "new", next_id + 1: "new"})
            case "merge":
                table.merge({one: draw.choice("abc") for one in some} | {next_id: "merged"})
            case "delete":
                table.delete(some)
            case "pack":
                DeltaTable(table.uri).optimize.compact()
            case "back" if table.version > version:
                DeltaTable(table.uri).restore(version)
                table.held = dict(before)
    if table.version == version:
        return
    found = table.since(version)
    same = {one for one, text in before.items() if table.held.get(one) == text}
    assert sorted(found.gone) == sorted(str(one) for one in before if one not in same)
    came = {str(one): text for one, text in table.held.items() if one not in same}
    assert sorted(found.came) == sorted(came)
    assert read(table.source, found) == came
    together = table.since(version, "tens", "side")
    assert together.new == found.new
    for keys, of_both in ((found.gone, together.gone), (found.came, together.came)):
        both = [key_text([str(int(one) // 10), side(int(one))]) for one in keys]
        assert sorted(of_both) == sorted(both)
    place = Path(table.uri).parent / "new_rows.json"
    place.write_bytes(new_rows_text(found.new))
    assert read_new_rows(str(place), {}) == found.new


def test_rows_that_are_the_same_in_all_and_rows_without_a_key_are_told_apart_by_number(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path / "t")
    nobody = pa.table({"id": pa.array([None, None, 1], pa.int64()), "text": ["x", "x", "y"]})
    write_deltalake(table.uri, nobody)
    version = table.version
    DeltaTable(table.uri).update(predicate="id = 1", updates={"text": "'z'"})
    found = table.since(version)
    assert (found.gone, found.came) == (("1",), ("1",))
    assert sum(len(one.rows) for one in found.new) == 1
    write_deltalake(table.uri, nobody.slice(0, 1), mode="append")
    DeltaTable(table.uri).update(predicate="id = 1", updates={"text": "'w'"})
    found = table.since(version)
    assert (found.gone, found.came) == (("1",), ("1",))
    assert sum(len(one.rows) for one in found.new) == 2


def test_the_version_of_a_row_is_the_one_that_packed_its_file(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.append({1: "a", 2: "a"})
    version = table.version
    table.append({3: "a"})
    table.delete([1])
    DeltaTable(table.uri).optimize.compact()
    packed = table.version
    table.append({4: "a"})
    table.append({5: "a"})
    found = table.since(version)
    assert {one.version for one in found.new} == {packed, packed + 1, packed + 2}


@pytest.mark.parametrize("is_apart", [True, False])
def test_a_key_of_several_rows_is_refused_where_its_rows_changed(
    tmp_path: Path, is_apart: bool
) -> None:
    table = Table(tmp_path / "t")
    write_deltalake(table.uri, pa.table({"id": [1, 2], "text": ["a", "b"]}))
    if is_apart:
        write_deltalake(table.uri, pa.table({"id": [1], "text": ["c"]}), mode="append")
    else:
        rows = pa.table({"id": [1, 1, 2], "text": ["a", "c", "b"]})
        write_deltalake(table.uri, rows, mode="overwrite")
    version = table.version
    DeltaTable(table.uri).update(predicate="id = 2", updates={"text": "'z'"})
    assert table.since(version).gone == ("2",)
    DeltaTable(table.uri).delete("id = 1 AND text = 'a'")
    with pytest.raises(SourceRefused, match=r"several have one key \(1\)"):
        table.since(version)
    # Which are two where another column tells them apart.
    assert {*table.since(version, "text", "id").gone} == {"a,1", "b,2"}


def test_a_batch_reads_what_was_begun_and_nothing_of_a_range_in_which_rows_changed(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path / "t")
    table.append({1: "a"})
    table.append({2: "a"})
    source = table.source
    all_of_it = Offset(source.id, 0, 2)
    assert not has_changes(source, all_of_it)
    assert unless_changed(source, all_of_it) == all_of_it
    table.delete([1])
    source = table.source
    whole = Offset(source.id, 1, 3)
    assert unless_changed(source, whole) == Offset(source.id, 1, 1)
    begun = Offset(source.id, 1, 3, skip=1)
    assert unless_changed(source, begun) == Offset(source.id, 1, 2, skip=1)
    held = Offset(source.id, 1, 3, snapshot=0, skip=1)
    assert unless_changed(source, held) == Offset(source.id, 1, 1, snapshot=0, skip=1)


def test_what_an_act_follows_is_planned_until_a_batch_has_read_it() -> None:
    act = FollowedVersions(id="t", begin=5, next=8, mark=None, act="20260701T000000Z")
    planned = Offset("t", 5, 8, follows=act.act)
    assert followed_offset(Position(3, Offset("t", 2, 5)), act) == planned
    assert Offset.of(planned.text, "offsets/4") == planned
    # Once it is read, versions that were set back have these numbers again.
    for other in (Offset("t", 5, 8), Offset("u", 2, 5), Offset("t", 5, 5, skip=1, stop=2)):
        assert followed_offset(Position(4, other), act) is None
    assert followed_offset(Position(), act) is None
    # Where versions were set back a later batch may end there again.
    numbered = act.model_copy(update={"after": 3})
    assert followed_offset(Position(3, Offset("t", 2, 5)), numbered) == planned
    assert followed_offset(Position(5, Offset("t", 4, 5)), numbered) is None
    # A former version noted no number: it is told by where the last batch ended.
    noted = FollowedVersions.model_validate_json(act.model_dump_json(exclude={"after"}))
    assert followed_offset(Position(5, Offset("t", 4, 5)), noted) == planned


COLUMNS = {"id": "long not null", "at": "timestamp", "key": "string", "amount": "long"}


@pytest.mark.parametrize(
    ("delta", "source", "words"),
    [
        ({"key": None}, {}, "go together"),
        ({"changes": "skip"}, {}, "go together"),
        ({"key": "nobody"}, {}, "has to be a column of type"),
        ({"key": "key"}, {}, "`not null`"),
        ({"key": "at"}, {}, "has to be a column of type"),
        ({"key": ["id", "at"]}, {}, "`at`, the key of `changes: follow`, has to be a column"),
        ({"key": ["id", "id"]}, {}, "names a column twice"),
        ({"starting": "latest"}, {}, "no `starting`"),
        ({}, {"unique": {"by": "id", "within": "1 day"}}, "goes with no `unique`"),
        ({}, {"when": {"field": "key", "in": ["a"]}}, "`when` or `explode`"),
        ({}, {"columns": {**COLUMNS, "id": {"type": "string not null", "trim": True}}}, "`trim`"),
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_refused_in_the_file(
    delta: dict[str, Any], source: dict[str, Any], words: str
) -> None:
    followed = {"table": "t", "changes": "follow", "key": "id"} | delta
    whole = {"delta": followed, "columns": COLUMNS, "event_time": {"column": "at"}} | source
    with pytest.raises(PipelineFileInvalid, match=words):
        pipeline_from_mapping("shop", clicks(source=whole))


def test_what_keep_removes_cannot_be_followed_and_is_refused_in_the_file() -> None:
    delta = {"table": "t", "changes": "follow", "key": "id"}
    source = {"delta": delta, "columns": COLUMNS, "event_time": {"column": "at"}}
    assert pipeline_from_mapping("shop", clicks(source=source)).keep is None
    with pytest.raises(PipelineFileInvalid, match="`keep` goes with no `changes: follow`"):
        pipeline_from_mapping("shop", clicks(source=source, keep="30 days"))
