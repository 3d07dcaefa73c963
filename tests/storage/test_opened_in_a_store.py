"""On object storage a table's log is read here, and by delta-rs where it has to be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from tests.storage.s3 import Requests, s3_server
from tidemark.errors import DataDamaged, TableLost, TableUnsupported
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import list_files, read_bytes, remove_files, write_bytes

URI = "s3://lake/t%20x"
LOG = f"{URI}/_delta_log"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Requests, dict[str, str]]]:
    asked = Requests(tmp_path_factory.mktemp("store") / "requests")
    with s3_server(requests=asked.file) as options:
        yield asked, options


@pytest.fixture
def place(store: tuple[Requests, dict[str, str]]) -> TablePlace:
    """Of two dates, one of whose names a URI encodes; a part of it is removed again."""
    _, options = store
    place = TablePlace(URI, options)
    remove_files(list_files(place.uri, options), options)
    for number in range(4):
        noted = CommitProperties(app_transactions=[Transaction("a", number)])
        write_deltalake(
            URI,
            pa.table({"n": [number, None], "day": ["1 / x", "2"], "x": [1.5 * number, None]}),
            mode="append",
            partition_by=["day"],
            configuration={"delta.checkpointInterval": "10"},
            commit_properties=noted,
            storage_options=options,
        )
    by_delta_rs(place).delete("n = 1")
    return place


def facts(table: DeltaTable) -> dict[str, Any]:
    """What delta-rs tells of a table, and its rows."""
    known, rows = table.metadata(), dataset_of(table).to_table()
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return {
        "version": table.version(),
        "metadata": {name: getattr(known, name) for name in ("id", "name", "configuration")},
        "columns": known.partition_columns,
        "schema": table.schema(),
        "partitions": sorted(map(str, table.partitions())),
        "files": sorted(map(str, files)),
        "rows": rows.sort_by([("n", "ascending"), ("day", "ascending")]).to_pylist(),
        "some": dataset_of(table, "day = '2'").count_rows(),
        "a": [table.transaction_version(name) for name in ("a", "none")],
    }


def by_delta_rs(place: TablePlace) -> DeltaTable:
    return DeltaTable(place.uri, storage_options=dict(place.options))


def of_log(found: Counter[str]) -> int:
    return sum(number for kind, number in found.items() if "_delta_log" in kind)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_it_tells_what_delta_rs_tells_and_reads_each_entry_once(
    store: tuple[Requests, dict[str, str]], place: TablePlace, checkpointed: bool
) -> None:
    if checkpointed:
        by_delta_rs(place).create_checkpoint()
    by_delta_rs(place).delete("n = 2")
    by_delta_rs(place).alter.add_columns([Field("y", PrimitiveType("long"))])
    again = CommitProperties(app_transactions=[Transaction("a", 9)])
    by_delta_rs(place).delete("n = 3", commit_properties=again)
    expected = facts(by_delta_rs(place))
    asked = store[0].from_now()
    table = place.existing()
    assert facts(table) == expected
    # The hint, a listing, and each entry, or the checkpoint and those behind it.
    assert of_log(asked.count()) == (1 + 1 + 4 if checkpointed else 1 + 1 + 8)
    # What delta-rs writes, it writes on the version that was read.
    more = pa.table({"n": [9], "day": ["2"], "x": [0.5], "y": [1]})
    write_deltalake(table, more, mode="append")
    assert facts(table) == facts(by_delta_rs(place))
    assert table.version() == expected["version"] + 1


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_table_that_is_opened_again_reads_those_files_of_its_log_that_are_new(
    store: tuple[Requests, dict[str, str]], place: TablePlace, checkpointed: bool
) -> None:
    if checkpointed:
        by_delta_rs(place).create_checkpoint()
    facts(place.existing())
    by_delta_rs(place).delete("n = 2")
    # Damaged, and mended by another text of the same.
    entry = f"{LOG}/{4:020}.json"
    write_bytes(entry, read_bytes(entry, place.options) + b"\n", place.options)
    asked = store[0].from_now()
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(lambda: facts(place.existing())).result()
    assert told == facts(by_delta_rs(place))
    # Its hint, a listing, and the new entry, beside the other one where no checkpoint holds it.
    ours = 1 + 1 + 1 + (not checkpointed)
    asked, found = asked.from_now(), asked.count()
    facts(by_delta_rs(place))
    assert of_log(found) == ours + of_log(asked.count())


def test_a_small_file_of_a_table_that_was_written_is_read_with_one_request(
    store: tuple[Requests, dict[str, str]], place: TablePlace
) -> None:
    table = place.existing()
    more = pa.table({"n": [9], "day": ["2"], "x": [0.5]})
    write_deltalake(table, more, mode="append")
    asked = store[0].from_now()
    rows = dataset_of(table).to_table()
    found = asked.count()
    assert rows.num_rows == dataset_of(by_delta_rs(place)).count_rows()
    assert found["GET t x/day=2/"] == sum("day=2/" in file for file in table.file_uris())


def test_a_commit_on_the_version_that_was_read_excludes_another(place: TablePlace) -> None:
    table, other = place.existing(), by_delta_rs(place)
    other.delete("n = 3")
    with pytest.raises(Exception, match="Failed to commit"):
        table.delete("n = 3", commit_properties=CommitProperties(max_commit_retries=0))
    assert place.existing().version() == other.version()


@pytest.mark.parametrize("what", ["cut off", "empty", "gone", "no JSON"])
def test_an_odd_log_is_for_delta_rs_to_judge(place: TablePlace, what: str) -> None:
    entry = f"{LOG}/{2:020}.json"
    content = read_bytes(entry, place.options)
    damaged = {"cut off": content[:-40], "empty": b"", "no JSON": content + b"\nx"}
    if what == "gone":
        remove_files([entry], place.options)
    else:
        write_bytes(entry, damaged[what], place.options)
    if what == "empty":
        # delta-rs takes it for a commit that did nothing.
        assert facts(place.existing()) == facts(by_delta_rs(place))
        return
    with pytest.raises(DataDamaged):
        place.open()


@pytest.mark.parametrize("hint", [b"[]", b"5", b"null", b'{"version": []}'])
def test_a_hint_that_is_none_is_left_to_delta_rs(place: TablePlace, hint: bytes) -> None:
    write_bytes(f"{LOG}/_last_checkpoint", hint, place.options)
    assert facts(place.existing()) == facts(by_delta_rs(place))


@pytest.mark.parametrize("version", [50, "77", 7.0, None])
def test_a_transaction_that_stands_twice_or_is_no_number_is_left_to_delta_rs(
    place: TablePlace, version: Any
) -> None:
    number = by_delta_rs(place).version() + 1
    told = [{"commitInfo": {"timestamp": 1}}]
    told += [{"txn": {"appId": "a", "version": one}} for one in (version, 40)]
    entry = "\n".join(map(json.dumps, told)).encode()
    write_bytes(f"{LOG}/{number:020}.json", entry, place.options)
    try:
        expected = by_delta_rs(place).transaction_version("a")
    except Exception:  # noqa: BLE001  whatever it is, it is so here too
        with pytest.raises(Exception, match=r"(?s)."):
            place.existing().transaction_version("a")
    else:
        assert place.existing().transaction_version("a") == expected


def test_nothing_is_committed_to_another_table_that_took_its_place(place: TablePlace) -> None:
    table = place.existing()
    version, rows = table.version(), pa.table({"n": [9], "day": ["2"], "x": [0.5]})
    remove_files(list_files(place.uri, place.options), place.options)
    for _ in range(version + 1):
        write_deltalake(URI, rows, mode="append", storage_options=dict(place.options))
    assert by_delta_rs(place).version() == version
    with pytest.raises(TableLost, match="Another table lies in"):
        write_deltalake(table, rows, mode="append")
    assert by_delta_rs(place).version() == version


def test_a_protocol_that_is_not_plain_is_left_to_delta_rs(place: TablePlace) -> None:
    by_delta_rs(place).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    table = place.existing()
    assert table.version() == by_delta_rs(place).version()
    assert table.protocol() == by_delta_rs(place).protocol()
    features = {"readerFeatures": ["unheardOf"], "writerFeatures": ["unheardOf"]}
    newer = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    entry = f"{LOG}/{table.version() + 1:020}.json"
    write_bytes(entry, json.dumps(newer).encode(), place.options)
    with pytest.raises(TableUnsupported, match="unheardOf"):
        place.open()


def test_a_table_that_is_not_there_is_none(place: TablePlace) -> None:
    remove_files(list_files(place.uri, place.options), place.options)
    assert place.open() is None
