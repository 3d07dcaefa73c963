"""A checkpoint and its table on S3 go back and come back as local ones do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.checkpoint.archives import answers, land_listed, unpack
from tests.checkpoint.rewind.sinks import BASE, LAST
from tests.storage.s3 import s3_server
from tidemark.checkpoint.rewind.apply import apply_plan
from tidemark.checkpoint.rewind.plan import plan_rewind
from tidemark.checkpoint.rewind.read import list_checkpoint, read_for_rewind
from tidemark.checkpoint.rewind.restore import apply_restore, plan_restore
from tidemark.checkpoint.rewind.sinks import Sink
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes

PLACE, TABLE, BACKUP = (f"s3://lake/ä%20b/{name}" for name in ("checkpoint", "table", "backup"))


@pytest.mark.slow
def test_on_object_storage_a_rewind_and_its_way_back_are_the_same(tmp_path: Path) -> None:
    local = unpack(BASE, tmp_path)
    land_listed(local)
    query_id, now = str(answers(BASE)["id"]), datetime.now(UTC)
    with s3_server() as options:
        for path in local.rglob("*"):
            if path.is_file() and path.suffix != ".crc":
                place = f"{PLACE}/{path.relative_to(local)}"
                write_bytes(place, path.read_bytes(), options)
        for batch in range(LAST + 1):
            write_deltalake(
                TABLE,
                pa.table({"batch": pa.array([batch], pa.int64())}),
                mode="append",
                storage_options=options,
                commit_properties=CommitProperties(app_transactions=[Transaction(query_id, batch)]),
            )
        checkpoint, backup = FilePlace(PLACE, options), FilePlace(BACKUP, options)
        before = contents(checkpoint)
        found = list_checkpoint(checkpoint)
        to = Sink("delta", FilePlace(TABLE, options))
        sink = to.plan(query_id, 3)
        plan = plan_rewind(read_for_rewind(found, 3), sink, now)
        assert plan.refused == ()
        left = apply_plan(plan, checkpoint, backup, now)
        assert left.facts.commits.newest == 3
        assert before.keys() - contents(checkpoint).keys() == set(plan.change.removed)
        table = DeltaTable(TABLE, storage_options=options)
        assert table.transaction_version(query_id) == 3
        assert pa.table(table.to_pyarrow_table()).num_rows == 4
        apply_restore(plan_restore(backup, now, checkpoint=PLACE, sink=to), backup)
        assert contents(checkpoint) == before
        table = DeltaTable(TABLE, storage_options=options)
        assert table.transaction_version(query_id) == LAST
        assert pa.table(table.to_pyarrow_table()).num_rows == LAST + 1


def contents(place: FilePlace) -> dict[str, bytes]:
    found = list_checkpoint(place)
    return {name: place.read(name) for name in found.files}
