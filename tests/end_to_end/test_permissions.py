"""Files and folders that the job's user may not read."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.runs import JobEnd, Place, clicks, run_job

pytestmark = pytest.mark.process

# linux/prctl.h and linux/capability.h
_DROP_FROM_BOUNDING_SET = 24
_READ_ANYTHING = (1, 2)


@pytest.fixture
def obeying_permissions() -> Iterator[ThreadPoolExecutor]:
    """A thread whose processes obey file permissions, also where the tests run as root.

    Root reads everything by two capabilities. A thread that drops them from its bounding set
    starts processes without them, and the other threads keep theirs.
    """
    with ThreadPoolExecutor(1) as thread:
        if os.geteuid() == 0 and not all(thread.map(_drop, _READ_ANYTHING)):
            pytest.skip("runs as root, and may not give up root's right to read everything")
        yield thread


def _drop(capability: int) -> bool:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) == 0)


def _run(thread: ThreadPoolExecutor, place: Place, run_id: str) -> JobEnd:
    return thread.submit(run_job, place, run_id).result()


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
