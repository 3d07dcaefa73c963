"""The transactions of an opened table are those that delta-rs tells, read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.storage.s3 import Requests, copy_to_store, s3_server
from tidemark.storage.delta.opened import newest_first
from tidemark.storage.delta.place import TablePlace

NAMES = ("a", "b/c", "of the first", "none")


def commit(place: Path, number: int, *names: str) -> None:
    noted = CommitProperties(app_transactions=[Transaction(name, number) for name in names])
    write_deltalake(place, pa.table({"n": [number]}), mode="append", commit_properties=noted)


def table_at(place: Path, commits: int) -> TablePlace:
    commit(place, 7, "a", "of the first")
    for number in range(1, commits):
        commit(place, 10 * number, "a" if number % 2 else "b/c")
    return TablePlace(str(place))


def told(table: DeltaTable) -> dict[str, int | None]:
    return {name: table.transaction_version(name) for name in NAMES}


def told_by_delta_rs(table: DeltaTable) -> dict[str, int | None]:
    known = DeltaTable(table.table_uri, version=table.version())
    return {name: known.transaction_version(name) for name in NAMES}


def plain(table: DeltaTable) -> None:
    pass


def checkpointed(table: DeltaTable) -> None:
    table.create_checkpoint()


def checkpointed_and_cleaned(table: DeltaTable) -> None:
    table.create_checkpoint()
    for entry in Path(table.table_uri.removeprefix("file://"), "_delta_log").glob("0*[0-9].json"):
        if int(entry.stem) < table.version():
            entry.unlink()


def without_a_hint(table: DeltaTable) -> None:
    checkpointed_and_cleaned(table)
    Path(table.table_uri.removeprefix("file://"), "_delta_log/_last_checkpoint").unlink()


def forgetting(table: DeltaTable) -> None:
    of_age = {"delta.setTransactionRetentionDuration": "interval 1 milliseconds"}
    table.alter.set_table_properties(of_age, raise_if_not_exists=False)


@pytest.mark.parametrize(
    "made", [plain, checkpointed, checkpointed_and_cleaned, without_a_hint, forgetting]
)
@pytest.mark.parametrize("behind", [0, 1, 5])
def test_transactions_are_those_of_the_version_that_is_open(
    tmp_path: Path, made: Callable[[DeltaTable], None], behind: int
) -> None:
    place = table_at(tmp_path / "t", 4)
    made(place.existing())
    for number in range(behind):
        commit(tmp_path / "t", 1_000 + number, "b/c")
    table = place.existing()
    first = told(table)
    assert first == told_by_delta_rs(table)
    # What came since is nothing to this handle, until it is brought to it.
    commit(tmp_path / "t", 5_000, "a")
    assert told(table) == first
    table.update_incremental()
    assert told(table) == told_by_delta_rs(table) != first
    table.load_as_version(table.version() - 1)
    assert told(table) == told_by_delta_rs(table)


def test_what_a_handle_has_committed_it_knows(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", 2).existing()
    assert told(table)["none"] is None
    noted = CommitProperties(app_transactions=[Transaction("none", 3)])
    write_deltalake(table, pa.table({"n": [1]}), mode="append", commit_properties=noted)
    assert told(table)["none"] == 3


def test_an_entry_that_is_gone_is_for_delta_rs_to_tell(tmp_path: Path) -> None:
    place = table_at(tmp_path / "t", 3)
    table = place.existing()
    Path(tmp_path, "t/_delta_log", f"{1:020}.json").unlink()
    with pytest.raises(Exception, match=r"not found|No such file|Not Found"):
        told(table)


def test_all_names_of_a_version_are_read_together(tmp_path: Path) -> None:
    place, asked = table_at(tmp_path / "t", 5), Requests(tmp_path / "requests")
    place.existing().create_checkpoint()
    for number in range(3):
        commit(tmp_path / "t", number, "b/c")
    with s3_server(requests=asked.file) as options:
        copy_to_store(tmp_path / "t", "s3://lake/t", options)
        asked = asked.from_now()
        table = TablePlace("s3://lake/t", options).existing()
        told(table)
        told(table)
        # The hint, the checkpoint, and three entries.
        assert asked.count() == {"GET t/_delta_log/": 5, "LIST t/_delta_log/": 1}


@pytest.mark.parametrize("made", [plain, checkpointed, checkpointed_and_cleaned, without_a_hint])
@pytest.mark.parametrize("limit", [None, 1, 2, 50])
def test_its_commits_are_those_that_delta_rs_tells(
    tmp_path: Path, made: Callable[[DeltaTable], None], limit: int | None
) -> None:
    place = table_at(tmp_path / "t", 4)
    made(place.existing())
    for number in range(2):
        commit(tmp_path / "t", 1_000 + number, "b/c")
    table = place.existing()
    for _ in range(2):
        known = DeltaTable(str(tmp_path / "t")).history()
        known = [one for one in known if one["version"] <= table.version()][:limit]
        assert table.history(limit) == known
        assert list(newest_first(table))[:limit] == known
        # A handle tells those up to its own version.
        commit(tmp_path / "t", 5_000, "a")


@pytest.mark.slow
def test_commits_are_read_as_far_as_somebody_asks_and_once(tmp_path: Path) -> None:
    # Those behind the checkpoint of the hundredth are read to open it.
    table_at(tmp_path / "t", 130)
    asked = Requests(tmp_path / "requests")
    with s3_server(requests=asked.file) as options:
        copy_to_store(tmp_path / "t", "s3://lake/t", options)
        table = TablePlace("s3://lake/t", options).existing()
        asked = asked.from_now()
        assert next(newest_first(table))["version"] == 129
        assert [one["version"] for one in table.history(30)] == [*range(129, 99, -1)]
        assert not asked.count()
        for _ in range(2):
            assert [one["version"] for one in table.history(31)][-1] == 99
            assert asked.count() == {"GET t/_delta_log/": 31}
