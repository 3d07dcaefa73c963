"""Housekeeping on S3: the same files go as on a disk, but for checksums, which are not there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.checkpoint.damaged import copy_of
from tests.kit.running import Place
from tests.storage.s3 import copy_to_store, put_folder, s3_server
from tests.upkeep.stores import NOW, names, plan_of
from tidemark.checkpoint.housekeeping.housekeep import carry_out_housekeeping, plan_checkpoint
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import list_files, write_bytes
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.carry_out import carry_out_maintenance
from tidemark.upkeep.maintenance.maintain import plan_maintenance

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


@pytest.mark.slow
def test_objects_that_s3a_keeps_for_folders_are_no_files_that_go_each_day(tmp_path: Path) -> None:
    place, root = Place(tmp_path / "root"), "s3://lake/root"
    for table in (place.places.bronze, place.places.gold("per_10m")):
        write_deltalake(table, pa.table({"key": ["a"]}))
    former = Path(place.places.query_checkpoint("per_10m", 2), "offsets", "0")
    former.parent.mkdir(parents=True)
    former.write_text("x")
    with s3_server() as options:
        copy_to_store(place.root, root, options)
        for folder in ("bronze/1/", "checkpoints/per_10m/2/state/"):
            put_folder(options, f"root/clicks/{folder}")
        settings = Settings(root=root, pipelines="p", storage_options=options)
        for going in ([f"{root}/clicks/checkpoints/per_10m/2/offsets/0"], []):
            plans = plan_maintenance(place.pipeline, settings, NOW)
            assert [uri for plan in plans for uri in plan.remove] == going
            for plan in plans:
                warehouse = Warehouse.of("clicks", settings)
                carry_out_maintenance("clicks", plan, warehouse.table_at(plan.uri))
