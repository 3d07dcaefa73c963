"""A root that was moved or copied: its files would all be read again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.kit.killed import Killed, killed
from tests.kit.running import Place, clicks
from tests.storage.s3 import s3_server
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import AcceptanceRefused, InputLost, TidemarkError
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.reasons import LEFT_OUT
from tidemark.pipeline.settings.settings import Settings
from tidemark.recompute.rewind.input import is_of_file
from tidemark.sources.kinds import source_handle
from tidemark.sources.lag import source_lag
from tidemark.sources.notes import (
    SourceNotes,
    accepted_loss,
    left_out,
    source_notes,
    write_source_notes,
)
from tidemark.sources.source import Lag, LossAcceptance, LostInput, SourceHandle
from tidemark.storage.files import write_bytes
from tidemark.upkeep.accept_changes import accept_changes, changed_by_hand

OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}
{"logOffset":%d}"""
POINTS = ("source noted", "files known below another root")
KILLS = [(point, when) for point in POINTS for when in ("before", "after")]


def listed(file: str, batch: int = 0) -> str:
    return f'{{"path":"{file}","timestamp":1,"batchId":{batch}}}'


def read_of(place: Place, *lists: Sequence[str], last: str = "") -> Checkpoint:
    """An ingest checkpoint that has read these files, a list for each batch, as the engine writes
    it; the last list may be a compacted one."""
    checkpoint = ingest_checkpoint(place.warehouse)
    folder = Path(checkpoint.uri)
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for batch, files in enumerate(lists):
        (folder / f"offsets/{batch}").write_text(OFFSETS % batch)
        (folder / f"commits/{batch}").write_text("v1\n{}")
        name = f"{batch}{last if batch == len(lists) - 1 else ''}"
        lines = "\n".join(["v1", *(listed(one, batch) for one in files)])
        (folder / "sources/0" / name).write_text(lines)
        (folder / f"sources/0/.{name}.crc").write_bytes(b"crc\0of what was there")
    return checkpoint


def place_at(root: Path, files: str = "landing/*.json*") -> Place:
    content = clicks()
    place = Place(root, content | {"source": {**content["source"], "files": files}})
    (root / "landing").mkdir(parents=True)
    return place


def source_of(place: Place) -> SourceHandle:
    return source_handle(place.pipeline, place.settings)


def check(place: Place, checkpoint: Checkpoint) -> None:
    source_of(place).check(checkpoint)


def accept(place: Place, checkpoint: Checkpoint) -> None:
    source = source_of(place)
    now = datetime(2026, 7, 1, tzinfo=UTC)
    source.accept_lost(checkpoint, source.lost(checkpoint), LossAcceptance("moved", "Ada", now))


def files_in(checkpoint: Checkpoint) -> list[str]:
    lists = sorted(Path(checkpoint.uri).glob("sources/0/[0-9]*"))
    return [one.uri for name in lists for one in checkpoint.listed_files(name.name)]


def test_a_root_that_was_moved_is_said_with_both_places_and_the_way_on(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    place.land("a.json", [])
    checkpoint = read_of(place, [f"file://{tmp_path}/old/landing/a.json"])
    with pytest.raises(InputLost, match="moved, copied or mounted") as raised:
        check(place, checkpoint)
    for told in (f"1 files below {tmp_path}/old,", str(place.root), "`tidemark accept clicks"):
        assert told in str(raised.value)
    assert not raised.value.retry_can_help
    with pytest.raises(InputLost):
        source_of(place).unread(checkpoint)
    assert source_lag(place.pipeline, place.settings) == Lag(None, None, 1)


def test_files_of_an_accepted_root_are_known_below_it_in_each_list(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new é %")
    old = f"file://{tmp_path}/old/landing"
    checkpoint = read_of(place, [f"{old}/a.json"], [f"{old}/b%20ü.json"], last=".compact")
    before = [f"{tmp_path}/new é %/landing/{name}" for name in ("a.json", "b ü.json", "c.json")]
    for file in before:
        Path(file).write_text("{}\n")
    accept(place, checkpoint)
    check(place, checkpoint)
    new = f"file://{tmp_path}/new%20é%20%25/landing"
    assert files_in(checkpoint) == [f"{new}/a.json", f"{new}/b%20ü.json"]
    assert not list(Path(checkpoint.uri).glob("sources/0/.*.crc"))
    (entry,) = source_notes(checkpoint).lost
    assert (entry.part, entry.accepted, entry.by) == (
        f"{tmp_path}/old → {place.root}",
        "moved",
        "Ada",
    )
    assert source_of(place).unread(checkpoint) == f"2 files may be new, among them {before[0]}"


def test_a_file_that_is_left_out_is_so_at_the_new_place_and_its_rows_are_found(
    tmp_path: Path,
) -> None:
    place = place_at(tmp_path / "new")
    old, new = (f"file://{tmp_path}/{name}/landing/b%20ü.json" for name in ("old", "new"))
    checkpoint = read_of(place, [old])
    at = datetime(2026, 7, 1, tzinfo=UTC)
    noted = accepted_loss(LostInput(old, LEFT_OUT, "known"), LossAcceptance("why", "Ada", at))
    write_source_notes(checkpoint, SourceNotes(lost=(noted,)))
    rows = ds.dataset(pa.table({"_file": [old, new, new.replace("landing", "landing/landing")]}))
    assert rows.count_rows(is_of_file(new, str(place.root), checkpoint)) == 1
    accept(place, checkpoint)
    assert [one.part for one in left_out(checkpoint)] == [new]
    rows = ds.dataset(pa.table({"_file": [old, new, f"{old}c"]}))
    assert rows.count_rows(is_of_file(new, str(place.root), checkpoint)) == 2


def test_an_acceptance_that_was_killed_stops_runs_until_it_is_repeated(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    old = f"file://{tmp_path}/old/landing"
    checkpoint = read_of(place, [f"{old}/a.json"], [f"{old}/b.json"], [f"{old}/c.json"])
    for point, when in KILLS:
        with killed(when, point), pytest.raises(Killed):  # type: ignore[arg-type]
            accept(place, checkpoint)
        with pytest.raises(InputLost):
            check(place, checkpoint)
    accept(place, checkpoint)
    accept(place, checkpoint)
    check(place, checkpoint)
    assert files_in(checkpoint) == [f"file://{place.root}/landing/{name}.json" for name in "abc"]
    assert len(source_notes(checkpoint).lost) == 1


def test_a_move_that_was_half_accepted_before_the_next_is_finished_by_that(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    first, second = (f"file://{tmp_path}/{name}/landing" for name in ("one", "two"))
    checkpoint = read_of(place, [f"{first}/a.json"], [f"{second}/b.json"])
    accept(place, checkpoint)
    assert files_in(checkpoint) == [f"file://{place.root}/landing/{name}.json" for name in "ab"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("landing/old", "landing/old/new"), ("landing", "landing/landing/new"), ("w/old", "w")],
)
def test_a_root_may_lie_in_the_other_and_have_the_folders_name(
    tmp_path: Path, old: str, new: str
) -> None:
    place = place_at(tmp_path / new)
    checkpoint = read_of(place, [f"file://{tmp_path}/{old}/landing/a.json"])
    with pytest.raises(InputLost, match=f"below {tmp_path}/{old},"):
        check(place, checkpoint)
    accept(place, checkpoint)
    check(place, checkpoint)
    assert files_in(checkpoint) == [f"file://{place.root}/landing/a.json"]


def test_which_root_a_file_lay_below_is_told_by_the_files_here_or_refused(tmp_path: Path) -> None:
    """The pattern takes files at any depth, so both roots may be meant."""
    place = place_at(tmp_path / "new", "landing/**/*.json")
    checkpoint = read_of(place, [f"file://{tmp_path}/landing/old/landing/a.json"])
    before = files_in(checkpoint)
    with pytest.raises(AcceptanceRefused, match="nobody can tell which root"):
        accept(place, checkpoint)
    assert files_in(checkpoint) == before
    place.land("a.json", [])
    accept(place, checkpoint)
    assert files_in(checkpoint) == [f"file://{place.root}/landing/a.json"]


def test_a_batch_that_was_left_in_the_middle_is_finished_where_it_was(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    checkpoint = read_of(place, [f"file://{tmp_path}/old/landing/a.json"])
    (Path(checkpoint.uri) / "commits/0").unlink()
    before = files_in(checkpoint)
    with pytest.raises(AcceptanceRefused, match=r"repeats batch 0.*run the pipeline there once"):
        accept(place, checkpoint)
    assert files_in(checkpoint) == before


@pytest.mark.parametrize("why", ["a batch is left", "the contract is damaged"])
def test_where_the_root_or_the_file_cannot_be_accepted_no_change_by_hand_is_either(
    tmp_path: Path, why: str
) -> None:
    place = place_at(tmp_path / "new")
    checkpoint = read_of(place, [f"file://{tmp_path}/old/landing/a.json"])
    gold = place.places.gold("per_10m")
    noted = CommitProperties(app_transactions=[Transaction("identities", 1)])
    write_deltalake(gold, pa.table({"key": ["a", "b"]}), commit_properties=noted)
    DeltaTable(gold).delete("key = 'a'")
    if why == "a batch is left":
        (Path(checkpoint.uri) / "commits/0").unlink()
    else:
        Path(place.places.contract("ingest", 1)).write_text("{")
    found = changed_by_hand(place.pipeline, place.settings)
    assert [loss.name for loss in found] == ["gold"]
    before = files_in(checkpoint)
    with pytest.raises(TidemarkError, match="Nothing was written"):
        accept_changes(place.pipeline, place.settings, "accept", "moved", "Ada")
    assert changed_by_hand(place.pipeline, place.settings) == found
    assert (files_in(checkpoint), source_notes(checkpoint).lost) == (before, ())


@pytest.mark.parametrize(
    "files",
    [
        ["file://{root}/landing/a.json"],
        ["file:{root}/landing/a%20b.json"],
        # The pattern was another one before.
        ["file://{root}/other/a.json"],
        ["file:///elsewhere/a.json"],
    ],
)
def test_a_root_that_stayed_is_no_matter(tmp_path: Path, files: list[str]) -> None:
    place = place_at(tmp_path / "new")
    check(place, read_of(place, [one.format(root=place.root) for one in files]))


def test_a_root_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    checkpoint = read_of(place, [f"file://{place.root}/landing/a.json"])
    for root in (tmp_path / "new" / ".." / "new", Path(f"{place.root}/")):
        check(Place(root, place.content), checkpoint)
    settings = place.settings.model_copy(update={"root": f"file://{place.root}"})
    source_handle(place.pipeline, settings).check(checkpoint)


def test_a_link_to_the_root_is_another_place_that_can_be_accepted(tmp_path: Path) -> None:
    """The engine does not follow it."""
    place = place_at(tmp_path / "real")
    read_of(place, [f"file://{place.root}/landing/a.json"])
    (tmp_path / "link").symlink_to(place.root)
    linked = Place(tmp_path / "link", place.content)
    checkpoint = ingest_checkpoint(linked.warehouse)
    with pytest.raises(InputLost):
        check(linked, checkpoint)
    accept(linked, checkpoint)
    check(linked, checkpoint)
    assert files_in(checkpoint) == [f"file://{tmp_path}/link/landing/a.json"]


def test_files_by_a_uri_do_not_depend_on_the_root(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new", f"file://{tmp_path}/new/landing/*.json")
    check(place, read_of(place, [f"file://{tmp_path}/old/landing/a.json"]))


@pytest.mark.slow
def test_a_bucket_that_was_copied_into_another_is_accepted_too(tmp_path: Path) -> None:
    place = place_at(tmp_path / "local")
    read_of(place, ["s3a://before/wh/landing/a%20b.json"], ["s3a://before/wh/landing/c.json"])
    with s3_server() as options:
        settings = Settings(root="s3://lake/deep/wh", pipelines="/none", storage_options=options)
        source = source_handle(place.pipeline, settings)
        checkpoint = Checkpoint(source.places.ingest_checkpoint, options)
        local = Path(place.places.ingest_checkpoint)
        for file in local.rglob("*"):
            if file.is_file():
                write_bytes(
                    f"{checkpoint.uri}/{file.relative_to(local)}", file.read_bytes(), options
                )
        (lost,) = source.lost(checkpoint)
        assert lost.part == "s3://before/wh → s3://lake/deep/wh"
        now = datetime(2026, 7, 1, tzinfo=UTC)
        source.accept_lost(checkpoint, [lost], LossAcceptance("copied", "Ada", now))
        assert source.lost(checkpoint) == ()
        assert [one.uri for n in "01" for one in checkpoint.listed_files(n)] == [
            "s3a://lake/deep/wh/landing/a%20b.json",
            "s3a://lake/deep/wh/landing/c.json",
        ]
    shutil.rmtree(local)
