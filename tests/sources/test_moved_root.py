"""A root that was moved or copied: its files would all be read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kit.running import Place, clicks
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import TableLost
from tidemark.sources.kinds import placed_source

LISTED = """v1
{"path":"file://%s","timestamp":1,"batchId":0}"""
OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}
{"logOffset":0}"""


def read_of(place: Place, files: Sequence[str]) -> Checkpoint:
    """An ingest checkpoint that has read these files, as the engine writes it."""
    checkpoint = Checkpoint.of_ingest(place.warehouse)
    folder = Path(checkpoint.uri)
    for name in ("offsets", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "offsets/0").write_text(OFFSETS)
    lines = LISTED.splitlines()
    (folder / "sources/0/0").write_text("\n".join([lines[0], *(lines[1] % f for f in files)]))
    return checkpoint


def place_at(root: Path, files: str = "landing/*.json*") -> Place:
    content = clicks()
    place = Place(root, content | {"source": {**content["source"], "files": files}})
    (root / "landing").mkdir(parents=True)
    return place


def check(place: Place, checkpoint: Checkpoint) -> None:
    placed_source(place.pipeline, place.settings).check(checkpoint)


def test_a_root_that_was_moved_is_said_with_both_places(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    checkpoint = read_of(place, [f"{tmp_path}/old/landing/a.json"])
    with pytest.raises(TableLost, match="moved or copied") as raised:
        check(place, checkpoint)
    assert f"{tmp_path}/old/landing/a.json" in str(raised.value)
    assert str(place.root) in str(raised.value)
    assert not raised.value.retry_can_help


@pytest.mark.parametrize(
    "files",
    [
        ["{root}/landing/a.json"],
        ["{root}/landing/a%20b.json"],
        # The pattern was another one before.
        ["{root}/other/a.json"],
        ["/elsewhere/a.json"],
    ],
)
def test_a_root_that_stayed_is_no_matter(tmp_path: Path, files: list[str]) -> None:
    place = place_at(tmp_path / "new")
    check(place, read_of(place, [one.format(root=place.root) for one in files]))


def test_a_root_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new")
    checkpoint = read_of(place, [f"{place.root}/landing/a.json"])
    for root in (tmp_path / "new" / ".." / "new", Path(f"{place.root}/")):
        check(Place(root, place.content), checkpoint)


def test_files_by_a_uri_do_not_depend_on_the_root(tmp_path: Path) -> None:
    place = place_at(tmp_path / "new", f"file://{tmp_path}/new/landing/*.json")
    check(place, read_of(place, [f"{tmp_path}/old/landing/a.json"]))
