"""Up to which batch a table's offsets are needed, though the batches are no longer kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoint.damaged import DATA, copy_of
from tidemark.checkpoint.log import Checkpoint
from tidemark.upkeep.pipeline_housekeeping import first_unpublished

BATCHES = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("published", "first"),
    # Batches 0 and 1 end before version 2 of bronze, batches 2 and 3 before version 3.
    [(-1, 0), (0, 0), (1, 1), (2, 3), (9, 3)],
)
def test_the_last_batch_that_is_published_tells_where_the_next_one_began(
    published: int, first: int
) -> None:
    checkpoint = Checkpoint(str(DATA / "aggregate"), {})
    assert first_unpublished(checkpoint, BATCHES, published) == first


def test_all_are_needed_where_offsets_cannot_be_used(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    (folder / "offsets/2").write_text("v1")
    assert first_unpublished(Checkpoint(str(folder), {}), BATCHES, 1) == 0
    assert first_unpublished(Checkpoint(str(folder), {}), (), 1) is None
