"""`tidemark state compact --apply` and `tidemark state read`, whose jobs really are submitted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.damaged import DATA
from tests.kit.running import REPOSITORY, Place, clicks
from tests.upkeep.stores import names

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A pipeline whose table's checkpoint is a copy of a real one, with four deltas a partition."""
    place = Place(tmp_path, clicks(advanced={"state": {"limits": {"max_changes": 3}}}))
    place.write_file()
    shutil.copytree(DATA / "aggregate", place.places.query_checkpoint("per_10m", 1))
    return place


def tidemark(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["tidemark", "state", *arguments, "--master", "local[1]"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | place.variables,
        cwd=REPOSITORY,
    )


@pytest.mark.long
def test_what_is_due_is_compacted_and_a_key_is_read_from_the_snapshots(place: Place) -> None:
    checkpoint = Path(place.places.query_checkpoint("per_10m", 1))
    before = names(checkpoint)
    compacted = tidemark(place, "compact", "clicks", "--apply")
    assert compacted.returncode == 0, compacted.stderr
    assert "2 snapshots of batch 3 written" in compacted.stdout
    assert "instead of 8" in compacted.stdout
    new = {name for name in names(checkpoint) - before if not name.endswith(".crc")}
    assert new == {"state/0/0/4.snapshot", "state/0/1/4.snapshot"}

    shown = tidemark(place, "read", "clicks", "per_10m", "--json")
    assert shown.returncode == 0, shown.stderr
    rows: list[dict[str, Any]] = json.loads(shown.stdout)
    assert rows
    assert {"window", "key", "_value"} == rows[0].keys()
    key = rows[0]["key"]
    one = tidemark(place, "read", "clicks", "per_10m", "--where", f"key = '{key}'")
    assert one.returncode == 0, one.stderr
    of_key = [row for row in rows if row["key"] == key]
    assert f"{len(of_key)} keys are held after batch 3 of per_10m" in one.stdout
    wrong = tidemark(place, "read", "clicks", "per_10m", "--where", "spotId = 111")
    assert wrong.returncode == 1
    assert "ConditionInvalid" in wrong.stderr
