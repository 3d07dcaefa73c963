"""`ops/batches`: what the offset logs said outlives them, and is written once."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from tests.operators.test_batches_read import PLANNED, checkpoint
from tidemark.ledger.copied_batches import CopiedQuery, copied_batches, copy_batches
from tidemark.operators.batches_read import ReadTo
from tidemark.storage.delta.place import TablePlace


def test_each_batch_is_copied_once_whatever_is_left_of_the_logs(tmp_path: Path) -> None:
    uri, log = str(tmp_path / "ops/batches"), checkpoint(tmp_path / "log", PLANNED, committed=5)
    (tmp_path / "log/offsets/1").write_text("v1")  # cut: it cannot be copied
    for batches in ((0, 1, 2), (0, 1, 2), (2, 3, 4)):
        copy_batches(TablePlace(uri), [CopiedQuery("clicks", "per_10m", 1, "query", log, batches)])
    wanted = {batch: ReadTo(*planned) for batch, planned in enumerate(PLANNED) if batch != 1}
    assert copied_batches(TablePlace(uri), "clicks", "query") == wanted
    assert copied_batches(TablePlace(uri), "clicks", "other") == {}
    assert copied_batches(TablePlace(uri), "others", "query") == {}
    assert DeltaTable(uri).to_pyarrow_dataset().count_rows() == 4
