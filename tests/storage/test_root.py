"""A root below a mount that is missing is not taken for an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.root import why_missing

FSTAB = """
# what is mounted at the start
UUID=1 / ext4 defaults 0 1
UUID=2 none swap sw 0 0
server:/lake {lake} nfs nofail 0 0
#server:/old {old} nfs nofail 0 0
"""
MOUNTED = """22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
40 22 0:50 /lake {lake} rw,relatime shared:1 - nfs server:/lake rw
"""


@pytest.mark.parametrize("name", ["lake", "la ke", "läke"])
@pytest.mark.parametrize("mounted", [True, False])
def test_a_mount_of_fstab_that_is_not_there_is_told(
    tmp_path: Path, name: str, mounted: bool
) -> None:
    lake, old = tmp_path / name, tmp_path / "old"
    fstab, mounts = tmp_path / "fstab", tmp_path / "mountinfo"
    escaped = str(lake).replace(" ", "\\040")
    fstab.write_text(FSTAB.format(lake=escaped, old=old))
    mounts.write_text(MOUNTED.format(lake=escaped if mounted else "/elsewhere"))
    link = tmp_path / "link"
    link.symlink_to(lake)
    for root in (lake, lake / "warehouse", link / "warehouse"):
        found = why_missing(Settings(root=str(root)), fstab, mounts)
        assert found == (
            None
            if mounted
            else f"The root {root} lies below {lake}, which {fstab} names and is not mounted."
        )
    for root in (f"{lake}house", str(old), "s3://bucket/lake"):
        assert why_missing(Settings(root=root), fstab, mounts) is None
    assert why_missing(Settings(root=str(lake)), fstab, tmp_path / "no proc") is None
    assert why_missing(Settings(root=str(lake)), tmp_path / "no fstab", mounts) is None


@given(st.text(alphabet="/ \t\n#\\\\04x", max_size=60))
def test_whatever_stands_in_the_tables_of_mounts_nothing_is_raised(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("mounts")
    for name in ("fstab", "mountinfo"):
        (folder / name).write_text(text)
    why_missing(Settings(root="/lake"), folder / "fstab", folder / "mountinfo")


def test_this_machines_own_roots_are_not_missing(tmp_path: Path) -> None:
    assert why_missing(Settings(root=str(tmp_path))) is None
