"""A checkpoint and its table on S3 go back and come back as local ones do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.checkpoint.archives import answers, land_listed, unpack
from tests.checkpoint.rewind.queries import done
from tests.checkpoint.rewind.sinks import BASE, LAST, bytes_of, with_sinks
from tests.storage.s3 import put_folder, s3_server
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


@pytest.mark.slow
def test_objects_that_s3a_keeps_for_folders_are_no_files_of_a_checkpoint_or_a_sink(
    tmp_path: Path,
) -> None:
    made = with_sinks(tmp_path / "query")
    now, query_id = datetime.now(UTC), made.query_id
    place, out = (f"s3://lake/ä%20b/{name}" for name in ("checkpoint", "out"))
    with s3_server() as options:
        for local, uri in ((made.checkpoint, place), (made.out, out)):
            for path in local.rglob("*"):
                if path.is_file() and path.suffix != ".crc":
                    write_bytes(f"{uri}/{path.relative_to(local)}", path.read_bytes(), options)
        folders = [f for f in made.folder.rglob("*") if f.is_dir() and f.parts[-1] != "table"]
        for name in (*(f.relative_to(made.folder) for f in folders), "checkpoint/state/0/7"):
            put_folder(options, f"ä%20b/{name}/")
        write_bytes(f"{place}/commits/7", b"", options)
        checkpoint, backup = FilePlace(place, options), FilePlace(BACKUP, options)
        before = contents(checkpoint)
        assert before["commits/7"] == b""
        assert not {"", "offsets", "state", "state/0/0", "state/0/7"} & before.keys()
        to = Sink("files", FilePlace(out, options))
        plan = plan_rewind(
            read_for_rewind(list_checkpoint(checkpoint), 3), to.plan(query_id, 3), now
        )
        assert plan.refused == ()
        apply_plan(plan, checkpoint, backup, now)
        assert to.newest(query_id) == 3
        apply_restore(plan_restore(backup, now, checkpoint=place, sink=to), backup)
        assert contents(checkpoint) == before
        assert to.newest(query_id) == LAST


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "files"])
def test_a_local_checkpoint_goes_back_and_comes_back_with_a_sink_and_a_backup_on_object_storage(
    tmp_path: Path, kind: str
) -> None:
    made = with_sinks(tmp_path / "query")
    before = bytes_of(made.checkpoint)
    with s3_server() as options:
        for path in made.folder.rglob("*"):
            if path.is_file() and path.is_relative_to(made.table if kind == "delta" else made.out):
                place = f"s3://lake/{path.relative_to(made.folder)}"
                write_bytes(place, path.read_bytes(), options)
        uri = "s3://lake/table" if kind == "delta" else "s3://lake/out"
        sink = Sink(kind, FilePlace(uri, options))
        settings = tmp_path / "settings.yaml"
        settings.write_text(json.dumps({"root": "s3://lake/root", "storage_options": options}))
        more = ("--sink", sink.said, "--settings", settings)
        for backup in (tmp_path / "backup", "s3://lake/backup"):
            back = ("--to-batch", "3", "--backup", backup)
            done("rewind", made.checkpoint, *back, *more)
            assert sink.newest(made.query_id) == 3
            done("restore", backup, "--checkpoint", made.checkpoint, *more)
            assert sink.newest(made.query_id) == LAST
            assert bytes_of(made.checkpoint) == before


def contents(place: FilePlace) -> dict[str, bytes]:
    found = list_checkpoint(place)
    return {name: place.read(name) for name in found.files}
