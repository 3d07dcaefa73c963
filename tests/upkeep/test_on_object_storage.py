"""Housekeeping on S3: the same files go as on a disk, but for checksums, which are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoint.damaged import copy_of
from tests.storage.s3 import s3_server
from tests.upkeep.stores import NOW, names, plan_of
from tidemark.checkpoint.housekeeping.housekeep import carry_out_housekeeping, plan_checkpoint
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import list_files, write_bytes

PLACE = "s3://lake/ä%20b/checkpoints/one"


@pytest.mark.slow
def test_the_same_files_go_on_object_storage(tmp_path: Path) -> None:
    local = copy_of("aggregate", tmp_path)
    for partition in (0, 1):
        store = local / "state/0" / str(partition)
        (store / "2.snapshot").write_bytes((store / "2.delta").read_bytes())
    with s3_server() as options:
        for name in names(local):
            if not name.endswith(".crc"):
                write_bytes(f"{PLACE}/{name}", (local / name).read_bytes(), options)
        plan = plan_checkpoint(FilePlace(PLACE, options), 2, NOW)
        here = {name for name in plan_of(local, 2).going if not name.endswith(".crc")}
        assert set(plan.going) == here
        assert "state/0/1/1.delta" in here
        carry_out_housekeeping(plan, FilePlace(PLACE, options))
        left = {place.partition("/one/")[2] for place in list_files(PLACE, options)}
        assert left == {name for name in names(local) if not name.endswith(".crc")} - here
        assert plan_checkpoint(FilePlace(PLACE, options), 2, NOW).going_files == 0
