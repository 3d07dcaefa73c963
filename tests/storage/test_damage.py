"""A damaged table is told by its name and its file, and as one that a retry does not mend."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidemark.errors import DataDamaged, StorageUnavailable, TableUnsupported
from tidemark.storage.delta.append import append_rows
from tidemark.storage.delta.damage import damage_of, not_opened
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.fence import fence_tables
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.result_file import RunError
from tidemark.upkeep.maintenance.carry_out import compact_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    place = tmp_path / "lake" / "clicks" / "bronze"
    for number in range(3):
        write_deltalake(place, pa.table({"n": [number]}), mode="append")
    return place


def entry(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def cut(table: Path) -> None:
    data = entry(table, 2).read_bytes()
    entry(table, 2).write_bytes(data[: len(data) // 2])


def with_checkpoint(table: Path) -> Path:
    DeltaTable(table).create_checkpoint()
    return table / "_delta_log" / f"{2:020}.checkpoint.parquet"


def name_another(table: Path) -> None:
    with_checkpoint(table)
    (table / "_delta_log/_last_checkpoint").write_text('{"version":77,"size":1}')


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a cut entry": (cut, "0002.json: "),
    "an empty entry": (lambda table: entry(table, 2).write_text(""), "0002.json is empty"),
    "an empty one before": (lambda table: entry(table, 1).write_text(""), "0001.json is empty"),
    "one that is gone": (lambda table: entry(table, 1).unlink(), "0001.json is not there"),
    "the newest gone beside its checkpoint": (
        lambda table: (with_checkpoint(table), entry(table, 2).unlink()),
        "0002.json is gone",
    ),
    "the first gone": (lambda table: entry(table, 0).unlink(), "0000.json is not there"),
    "no JSON": (lambda table: entry(table, 2).write_bytes(b"\0x"), "0002.json: "),
    "a checkpoint gone": (
        lambda table: with_checkpoint(table).unlink(),
        "_last_checkpoint names version 2, which has no checkpoint",
    ),
    "a checkpoint cut": (
        lambda table: with_checkpoint(table).write_bytes(b"PAR1"),
        "_last_checkpoint names version 2, which has no checkpoint",
    ),
    "names nothing": (name_another, "names version 77, .* remove it, it is a hint only"),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_log_is_told_with_table_and_file(table: Path, name: str) -> None:
    damage, told = DAMAGES[name]
    damage(table)
    with pytest.raises(DataDamaged, match=told) as raised:
        TablePlace(str(table)).open()
    message = str(raised.value)
    assert f"The log of the table {table} is damaged" in message
    assert "Starting again does not help" in message
    assert "unknown" not in message
    assert "\n" not in message
    assert not RunError.of(raised.value).retry_can_help


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "ops").write_text("")
    with pytest.raises(DataDamaged, match=rf"{tmp_path}/ops is a file, and the table .*ops/runs"):
        TablePlace(f"{tmp_path}/ops/runs").open()
    assert TablePlace(f"{tmp_path}/none/runs").open() is None


def test_a_table_that_may_not_be_looked_for_is_no_table_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", denied)
    told = rf"The table {tmp_path}/runs could not be opened: Permission denied"
    with pytest.raises(StorageUnavailable, match=told):
        TablePlace(f"{tmp_path}/runs").open()


@pytest.mark.parametrize("content", [None, b"", b"PAR1xxxx"])
def test_a_data_file_that_is_gone_or_broken_is_told_by_its_name(
    table: Path, content: bytes | None
) -> None:
    (file, *_) = table.glob("*.parquet")
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    opened = TablePlace(str(table)).open()
    assert opened is not None
    with pytest.raises((OSError, ValueError)) as raised:
        dataset_of(opened).to_table()
    told = RunError.of(raised.value)
    assert (told.type, told.retry_can_help) == ("DataDamaged", False)
    assert file.name in told.message


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "s3a:/"])
@pytest.mark.parametrize("folder", ["/lake", "/my lake/é", "/a b/c d e/x-y"])
@pytest.mark.parametrize("name", ["part-00000.snappy.parquet", "0.delta", "3.snapshot"])
def test_the_file_that_is_gone_is_named_by_its_whole_path(
    scheme: str, folder: str, name: str
) -> None:
    file = f"{scheme}{folder}/k=1/{name}"
    for said in (
        f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file {file}. File does",
        f"java.io.FileNotFoundException: File {file} does not exist",
        f"Failed to open local file '{file}'. Detail: No such file or directory",
        f"reading the table /other/table: {file} is not a Parquet file",
    ):
        told = damage_of(OSError(said))
        assert told is not None
        assert str(told).startswith(f"{file} is gone or broken"), str(told)


def test_a_store_that_is_away_is_no_damage() -> None:
    error = OSError("Generic S3 error: error sending request for url (http://x/_delta_log/)")
    assert isinstance(not_opened(TablePlace("s3://b/t"), error), StorageUnavailable)
    assert damage_of(error) is None
    assert damage_of(ValueError("x.parquet")) is None
    assert RunError.of(error).retry_can_help


@pytest.mark.parametrize(
    "write",
    [
        lambda place: append_rows(place.existing(), pa.table({"n": [9]}), "the rows"),
        lambda place: fence_tables([place], 7),
        lambda place: compact_table(place.existing(), "", ()),
    ],
    ids=["an append", "a fence", "a compaction"],
)
def test_a_table_that_can_be_read_and_not_written_is_told_so_and_not_as_a_lost_race(
    table: Path, write: Callable[[TablePlace], None]
) -> None:
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    entry(table, 3).write_text(json.dumps({"protocol": features}))
    with pytest.raises(TableUnsupported, match=r"cannot be written here: RowTracking") as raised:
        write(TablePlace(str(table)))
    assert not RunError.of(raised.value).retry_can_help
    assert DeltaTable(table).version() == 3
