"""Checkpoints on S3: the same facts and the same verdicts, and no checksum files beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.checkpoint.damaged import DATA, NOW, facts_of
from tests.storage.s3 import s3_server
from tidemark.checkpoint.doctor.findings import CheckpointVerdict, FindingKind
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.errors import NotACheckpoint
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import remove_files, write_bytes

PLACE = "s3://lake/ä%20b/checkpoints/one"


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        folder = DATA / "aggregate"
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix != ".crc":
                place = f"{PLACE}/{path.relative_to(folder)}"
                write_bytes(place, path.read_bytes(), options)
        yield options


@pytest.mark.slow
@pytest.mark.parametrize("place", [PLACE, f"{PLACE}/", PLACE.replace("s3:", "s3a:")])
def test_a_checkpoint_on_object_storage_is_read_as_a_local_one(
    options: dict[str, str], place: str
) -> None:
    facts, local = read_checkpoint(FilePlace(place, options)), facts_of(DATA / "aggregate")
    sections = {kind: one for kind, one in local.sections.items() if kind != "checksums"}
    assert facts == replace(local, uri=place, sections=sections)
    assert judge_checkpoint(facts, NOW).verdict is CheckpointVerdict.CLEAN_END


def test_damage_on_object_storage_is_found(options: dict[str, str]) -> None:
    delta = f"{PLACE}/state/0/1/2.delta"
    data = (DATA / "aggregate/state/0/1/2.delta").read_bytes()
    remove_files([delta], options)
    told = judge_checkpoint(read_checkpoint(FilePlace(PLACE, options)), NOW)
    write_bytes(delta, data, options)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert {one.kind for one in told.findings} == {FindingKind.STATE}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://lake/none", "does not exist or is empty"),
        ("s3://lake", "is no checkpoint, but holds some. Give one of them: s3://lake/"),
    ],
)
def test_a_place_without_a_checkpoint_is_told(
    options: dict[str, str], place: str, said: str
) -> None:
    with pytest.raises(NotACheckpoint, match=said):
        read_checkpoint(FilePlace(place, options))
