"""Which ingest batches of bronze gold cannot have yet: by the notes of the commits since."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.kit.windows import Windows, at, window
from tidemark.errors import StorageUnavailable
from tidemark.gold.published_bronze import PublishedBronze, published_bronze
from tidemark.gold.state import gold_state
from tidemark.storage.delta.notes import IngestNote, as_metadata
from tidemark.storage.delta.rows import Rows


def ingest(uri: str, batch: int) -> None:
    note = IngestNote(query="q", batch=batch, rows=Rows())
    write_deltalake(
        uri,
        pa.table({"_batch": pa.array([batch], pa.int64())}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata=as_metadata(note)),
    )


@pytest.fixture
def bronze(tmp_path: Path) -> DeltaTable:
    """Versions 0 to 2 are batches 3, 5 and 6; version 3 deletes the rows of batch 5."""
    uri = str(tmp_path / "bronze")
    for batch in (3, 5, 6):
        ingest(uri, batch)
    DeltaTable(uri).delete("_batch = 5")
    return DeltaTable(uri)


@pytest.mark.parametrize(("published", "before"), [(-1, 3), (0, 5), (1, 6), (2, None), (3, None)])
def test_batches_committed_after_the_publish_are_left_out(
    bronze: DeltaTable, published: int, before: int | None
) -> None:
    assert published_bronze(bronze, published) == PublishedBronze(3, before)


def test_where_the_log_does_not_reach_back_nobody_can_tell(bronze: DeltaTable) -> None:
    bronze.history = lambda limit=None: []  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable, match="which rows gold stands for"):
        published_bronze(bronze, 1)


def test_rows_that_were_deleted_and_landed_again_are_not_left_out(tmp_path: Path) -> None:
    """With the values that they had: their windows are computed again, and differ in nothing. A
    backfill that left the rows out would take the windows out of gold."""
    table, bronze = Windows(tmp_path), str(tmp_path / "bronze")
    ingest(bronze, 0)
    table.change(window(at(10), key="a", total=1))
    table.publish(table.pin(at(12), bronze=0))
    DeltaTable(bronze).delete("_batch = 0")
    ingest(bronze, 1)
    table.change()
    pins = table.pin(at(12), bronze=2).model_copy(update={"has_recomputed": True})
    table.publish(pins, "landed again")
    published = gold_state(table.gold_table()).bronze
    assert published_bronze(DeltaTable(bronze), published).condition == "true"
    assert table.gold("key", "status", "revision") == [("a", "final", 0)]
