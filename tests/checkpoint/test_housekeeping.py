"""What goes of checkpoints that Spark 4.2 wrote, where an older file is damaged."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoint.archives import land_listed, unpack
from tests.checkpoint.damaged import remove, write
from tests.checkpoint.damages import CHANGELOG, ROCKSDB, SNAPSHOTS, cut
from tests.checkpoint.rewind.queries import command
from tests.upkeep.stores import names, plan_of


def lacking(folder: Path) -> None:
    """Snapshots that share a file with others which is gone, and that the newest does not need."""
    for path in folder.glob("state/0/*/4.zip"):
        data = io.BytesIO()
        gone = [{"localSstFileName": "1.sst", "dfsSstFileName": "gone.sst", "sizeBytes": 5}]
        with zipfile.ZipFile(data, "w") as snapshot:
            snapshot.writestr("metadata", f"v1\n{json.dumps({'sstFiles': gone, 'numKeys': 1})}")
        write(path, data.getvalue())


@pytest.mark.parametrize(
    ("base", "damage", "says"),
    [
        (SNAPSHOTS, cut("state/0/*/3.snapshot"), "3.snapshot, which is needed, is cut off"),
        (CHANGELOG, lacking, "4.zip, which is needed, lacks SSTs/gone.sst (gone, or of another"),
        (ROCKSDB, lacking, "4.zip, which is needed, lacks SSTs/gone.sst (gone, or of another"),
        (ROCKSDB, cut("state/0/*/4.zip"), "4.zip, which is needed, is cut off"),
    ],
)
def test_a_snapshot_that_builds_nothing_leaves_what_could_mend_it(
    tmp_path: Path, base: str, damage: Callable[[Path], None], says: str
) -> None:
    folder = unpack(base, tmp_path)
    land_listed(folder)
    assert any(name.startswith("state/") for name in plan_of(folder, 4).going)
    damage(folder)
    plan = plan_of(folder, 4)
    assert plan.refused is None
    assert any(says in why for share in plan.shares for why in share.reasons)
    assert not any(name.startswith("state/") for name in plan.going)
    assert set(plan.going) <= names(folder)


@pytest.mark.parametrize(
    ("gone", "kept"),
    [
        ((), range(8)),
        (("offsets/0", "commits/0"), range(2, 8)),
        (("offsets/0", "offsets/1", "commits/0", "commits/1", "commits/4"), range(5, 8)),
    ],
)
def test_batches_whose_logs_are_gone_are_not_among_those_that_it_can_be_taken_back_to(
    tmp_path: Path, gone: tuple[str, ...], kept: range
) -> None:
    folder = unpack(SNAPSHOTS, tmp_path)
    land_listed(folder)
    for name in gone:
        remove(folder / name)
    plan = plan_of(folder, 100)
    assert plan.kept == kept
    if gone:
        before = command("rewind", folder, "--to-batch", str(kept.start - 1), "--sink", "other")
        assert before.exit_code == 1
    assert (
        command("rewind", folder, "--to-batch", str(kept.start), "--sink", "other").exit_code == 0
    )


def test_files_of_others_below_the_folder_are_no_leftovers(tmp_path: Path) -> None:
    folder = unpack(SNAPSHOTS, tmp_path)
    land_listed(folder)
    others = ["sink/_delta_log/00000000000000000005.crc", "data/_temporary/0/part-0", "d/.x.y.tmp"]
    own = ["state/0/0/.3.delta.9a.tmp", ".metadata.9a.tmp"]
    for name in (*others, *own):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (0, 0))
    going = set(plan_of(folder, 4).going)
    assert not going & set(others)
    assert set(own) <= going
