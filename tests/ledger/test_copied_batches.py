"""`ops/batches`: what the offset logs said outlives them, and is written once."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from tests.operators.test_batches_read import PLANNED, TABLE_ID, checkpoint
from tidemark.ledger.copied_batches import CopiedQuery, copied_batches, copy_batches
from tidemark.operators.batches_read import OtherInput, ReadTo
from tidemark.storage.delta.ops_place import OpsPlace


def test_each_batch_is_copied_once_whatever_is_left_of_the_logs(tmp_path: Path) -> None:
    uri, log = str(tmp_path / "ops/batches"), checkpoint(tmp_path / "log", PLANNED, committed=5)
    (tmp_path / "log/offsets/1").write_text("v1")  # cut: it cannot be copied
    for batches in ((0, 1, 2), (0, 1, 2), (2, 3, 4)):
        copy_batches(OpsPlace(uri), [CopiedQuery("clicks", "per_10m", 1, "query", log, batches)])
    wanted = {batch: ReadTo(*planned) for batch, planned in enumerate(PLANNED) if batch != 1}
    assert copied_batches(OpsPlace(uri), "clicks", "query") == wanted
    assert copied_batches(OpsPlace(uri), "clicks", "other") == {}
    assert copied_batches(OpsPlace(uri), "others", "query") == {}
    assert DeltaTable(uri).to_pyarrow_dataset().count_rows() == 4


def test_how_far_other_inputs_were_read_is_copied_by_their_ids(tmp_path: Path) -> None:
    uri, log = str(tmp_path / "ops/batches"), checkpoint(tmp_path / "log", PLANNED, committed=5)
    others = [OtherInput("bronze/orders", TABLE_ID, -1), OtherInput("bronze/visits", "none", -1)]
    copy_batches(OpsPlace(uri), [CopiedQuery("clicks", "joined", 1, "query", log, (0, 1, 2))])
    found = copied_batches(OpsPlace(uri), "clicks", "query", others)
    assert {batch: dict(one.other_ends) for batch, one in found.items()} == {
        batch: {"bronze/orders": PLANNED[batch][0], "bronze/visits": 0} for batch in (0, 1, 2)
    }


def test_batches_copied_before_there_were_other_inputs_are_read(tmp_path: Path) -> None:
    uri, log = str(tmp_path / "ops/batches"), checkpoint(tmp_path / "log", PLANNED, committed=5)
    copy_batches(OpsPlace(uri), [CopiedQuery("clicks", "per_10m", 1, "query", log, (0, 1))])
    former = DeltaTable(uri).to_pyarrow_table().drop(["ends"])
    write_deltalake(uri, former, mode="overwrite", schema_mode="overwrite")
    found = copied_batches(OpsPlace(uri), "clicks", "query")
    assert found == {batch: ReadTo(*PLANNED[batch]) for batch in (0, 1)}
