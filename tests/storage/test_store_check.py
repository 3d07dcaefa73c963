"""A store is held to what the platform rests on, by writing to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.storage.s3 import s3_server
from tidemark.errors import SettingsInvalid
from tidemark.storage.bucket import make_bucket
from tidemark.storage.files import list_files, write_bytes
from tidemark.storage.store_check import StoreFinding, check_store

LEASE = timedelta(seconds=60)
CHECKS = ["write, read", "list", "create if absent", "entity tags", "clock", "remove"]


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


def found(root: str, options: dict[str, str], lag: timedelta = timedelta()) -> list[StoreFinding]:
    return list(check_store(root, options, LEASE, lambda: now() + lag))


def test_a_folder_of_this_machine_passes_and_keeps_nothing(tmp_path: Path) -> None:
    findings = found(str(tmp_path), {})
    assert [one.check for one in findings] == [name for name in CHECKS if name != "entity tags"]
    assert {one.problem for one in findings} == {None}
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_store_whose_conditional_writes_are_atomic_passes_and_keeps_nothing(
    store: dict[str, str],
) -> None:
    findings = found("s3://lake/good", store)
    assert [(one.check, one.problem) for one in findings] == [(name, None) for name in CHECKS]
    assert not list_files("s3://lake/good", store)


@pytest.mark.slow
def test_a_store_that_lets_two_writers_win_is_refused() -> None:
    with s3_server(knows_conditions=False) as options:
        findings = found("s3://lake/two", options)
        assert not list_files("s3://lake/two", options)
    assert findings[-1].check == "create if absent"
    assert "8 of 8 writers created the same file. Commits would be lost" in str(
        findings[-1].problem
    )
    assert not findings[-1].retry_can_help


def test_a_bucket_that_is_not_there_is_told_with_what_to_do(store: dict[str, str]) -> None:
    (only,) = found("s3://nobodys/root", store)
    assert "There is no such bucket" in str(only.problem)
    assert not only.retry_can_help


@pytest.mark.slow
def test_a_bucket_is_made_when_it_is_asked_for_and_an_existing_one_stays(
    store: dict[str, str],
) -> None:
    make_bucket("s3://made/root", store)
    write_bytes("s3://made/root/kept", b"kept", store)
    make_bucket("s3://made/root", store)
    assert list_files("s3://made", store).keys() == {"s3://made/root/kept"}
    assert found("s3://made/root", store)[-1].problem is None


@pytest.mark.parametrize("root", ["gs://bucket/root", "abfs://container@account/root", "/folder"])
def test_a_bucket_elsewhere_than_on_s3_is_left_to_its_stores_own_tools(root: str) -> None:
    with pytest.raises(SettingsInvalid, match="own tools"):
        make_bucket(root, {})


@pytest.mark.slow
def test_a_store_that_nobody_answers_for_is_told_and_may_come_back(store: dict[str, str]) -> None:
    (only,) = found("s3://lake/root", {**store, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    assert "storage_options" in str(only.problem)
    assert only.retry_can_help


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [-5, 5])
def test_a_clock_that_differs_by_more_than_half_a_lease_is_told(
    store: dict[str, str], minutes: int
) -> None:
    findings = found("s3://lake/clock", store, timedelta(minutes=minutes))
    assert findings[-1].check == "clock"
    assert "differ by " in str(findings[-1].problem)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (only,) = found(str(tmp_path / "file"), {})
    assert only.check == "write, read"
    assert only.problem
