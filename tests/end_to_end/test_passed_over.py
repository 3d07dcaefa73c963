"""A file that the store lists and the engine does not read is never passed over in silence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kit.running import Place, run_job

pytestmark = pytest.mark.process


def row(key: str) -> dict[str, Any]:
    return {"at": "2026-07-01T10:00:00Z", "key": key, "amount": 1}


def test_a_job_under_a_posix_locale_says_which_file_it_did_not_read(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.land("plain.json", [row("plain")])
    place.land("é.json", [row("accent")])
    result = run_job(place, environment={"LC_ALL": "C"}).result
    assert result is not None
    assert result.error is not None
    assert result.error.type == "SourcePassedOver"
    assert not result.error.retry_can_help
    assert "%C3%A9.json" in result.error.message
    assert "LC_ALL=C.UTF-8" in result.error.message


@pytest.mark.long
def test_a_name_that_is_no_utf8_is_told_and_read_once_it_is_renamed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    landed = place.land("latin.json", [row("latin")])
    odd = os.fsencode(landed.parent) + b"/caf\xe9.json"
    shutil.move(landed, odd)
    result = run_job(place, environment={"LC_ALL": "C.UTF-8"}).result
    assert result is not None
    assert result.error is not None
    assert "caf%E9.json" in result.error.message
    shutil.move(odd, landed)
    assert run_job(place, "again", environment={"LC_ALL": "C.UTF-8"}).exit_code == 0
    assert place.bronze()["key"].to_pylist() == ["latin"]
