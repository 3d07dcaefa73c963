"""Files and folders that the job's user may not read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kit.permissions import thread_obeying_permissions
from tests.kit.running import JobEnd, Place, clicks, run_job

pytestmark = pytest.mark.process


@pytest.fixture
def obeying_permissions() -> Iterator[ThreadPoolExecutor]:
    with thread_obeying_permissions() as thread:
        yield thread


def _run(thread: ThreadPoolExecutor, place: Place, run_id: str) -> JobEnd:
    return thread.submit(run_job, place, run_id).result()


@pytest.mark.long
def test_an_unreadable_file_is_a_reject_and_an_unreadable_folder_an_error_that_names_it(
    tmp_path: Path, obeying_permissions: ThreadPoolExecutor
) -> None:
    place = Place(tmp_path)
    secret = place.land("secret.json", [{"at": "2026-07-01T10:00:00Z", "key": "secret"}])
    place.land("open.json", [{"at": "2026-07-01T10:00:00Z", "key": "open"}])
    secret.chmod(0o000)
    first = _run(obeying_permissions, place, "file")
    assert first.exit_code == 0, first.output
    assert place.bronze()["key"].to_pylist() == ["open"]
    assert place.gold()["key"].to_pylist() == ["open"]
    [reject] = place.rejects().to_pylist()
    assert reject["reason"] == "unreadable file"
    assert reject["_file"] == secret.as_uri()
    assert reject["detail"].startswith("It may not be read (permission denied)")

    _assert_names_the_folder(place, obeying_permissions, tmp_path / "landing", "folder")
    source = clicks()["source"] | {"files": "landing/**/*.json"}
    below = Place(tmp_path, clicks(source=source), name="below")
    below.land("deep.json", [{"at": "2026-07-01T10:00:00Z"}], folder="landing/a/b")
    _assert_names_the_folder(below, obeying_permissions, tmp_path / "landing" / "a" / "b", "below")


def _assert_names_the_folder(
    place: Place, thread: ThreadPoolExecutor, folder: Path, run_id: str
) -> None:
    folder.chmod(0o000)
    try:
        end = _run(thread, place, run_id)
    finally:
        folder.chmod(0o755)
    assert end.result is not None
    assert end.result.error is not None
    assert end.result.error.retry_can_help
    assert end.exit_code == 75
    assert str(folder) in end.result.error.message
    assert end.result.error.type == "StorageUnavailable", end.result.error.message
