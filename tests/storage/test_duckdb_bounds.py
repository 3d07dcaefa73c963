"""What DuckDB may take: memory, and files for the rest."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha512
from math import nan
from pathlib import Path

import pyarrow as pa
import pytest

from tests.kit.patience import HUNG_SECONDS
from tests.kit.windows import Windows, at, window
from tidemark.errors import MemoryExhausted, SettingsInvalid
from tidemark.pipeline.settings.duckdb_limits import DuckDBLimits
from tidemark.pipeline.settings.settings import load_settings
from tidemark.storage import duckdb_bounds, duckdb_in_utc
from tidemark.storage.duckdb_bounds import bound_memory, bounds
from tidemark.storage.duckdb_in_utc import arrow_of, held

VALUES = pa.table(
    {
        "text": pa.array(["é", "", None]),
        "view": pa.array(["a" * 40, "b", None], pa.string_view()),
        "number": pa.array([nan, -0.0, None]),
        "decimal": pa.array([Decimal("1.10"), Decimal("-0.05"), None], pa.decimal128(38, 2)),
        "time": pa.array([datetime(1, 1, 1, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "struct": pa.array([{"a": 1, "b": None}, {"a": None, "b": b"0"}, None]),
    }
)


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(duckdb_bounds, "_BOUNDS", dict(duckdb_bounds._BOUNDS))
    yield
    duckdb_in_utc._opened.cache_clear()


@pytest.mark.parametrize("most", [0, 10**9], ids=["in a file", "in memory"])
def test_rows_are_as_they_were_in_a_file_and_in_memory(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_in_utc, "MOST_IN_MEMORY", most)
    found = held(iter(VALUES.to_batches(max_chunksize=1) * 2), VALUES.schema)
    assert found.schema == VALUES.schema
    assert repr(found.to_pylist()) == repr(VALUES.to_pylist() * 2)
    assert held(iter(()), VALUES.schema) == VALUES.slice(0, 0)


def test_an_answer_in_a_file_has_the_types_that_are_asked_for_and_outlives_its_block(
    tmp_path: Path, as_before: None
) -> None:
    bound_memory(DuckDBLimits(temp_directory=str(tmp_path)))
    asked = pa.schema({"n": pa.int32(), "at": pa.timestamp("us", "UTC")})
    sql = "SELECT n, make_timestamptz(n) AS at FROM range(300000) t(n) ORDER BY n DESC"
    with duckdb_in_utc.duckdb_in_utc() as connection:
        found = arrow_of(connection.sql(sql), asked)
    assert found.schema == asked
    assert found["n"].to_pylist() == [*reversed(range(300_000))]
    (own,) = tmp_path.iterdir()
    assert [one.name for one in own.iterdir()] == ["lock"], "a file without a name"


def test_a_publish_that_memory_does_not_do_for_says_what_to_set_and_leaves_gold(
    tmp_path: Path, as_before: None
) -> None:
    windows, files = Windows(tmp_path), str(tmp_path / "files")
    texts = [sha512(b"%d" % number).hexdigest() for number in range(20_000)]
    windows.change(*[window(at(10), key=key, total=1) for key in texts])
    bound_memory(DuckDBLimits(memory_limit="6MB", temp_directory=files))
    with pytest.raises(MemoryExhausted, match="memory_limit: …") as failed:
        windows.publish_at(None)
    assert files in str(failed.value)
    assert windows.gold("key") == []
    bound_memory(DuckDBLimits(memory_limit="2GB"))
    assert windows.publish_at(None).published_windows == len(texts)
    assert windows.gold("key", "total") == [(key, 1) for key in sorted(texts)]


PROCESS = """
import os, signal, sys
from pathlib import Path
from tidemark.pipeline.settings.duckdb_limits import DuckDBLimits
from tidemark.storage.duckdb_bounds import bound_memory, bounds
from tidemark.storage.duckdb_in_utc import duckdb_in_utc
parent = Path(sys.argv[1])
bound_memory(DuckDBLimits(memory_limit="60MB", temp_directory=sys.argv[1]))
def spilled():
    with duckdb_in_utc() as connection:
        connection.execute("CREATE TEMP TABLE t AS SELECT range || 'a' FROM range(6000000)")
        return {*Path(str(bounds()["temp_directory"])).glob("duckdb_temp*")}
found = spilled()
assert found
if sys.argv[2] == "forked":
    child = os.fork()
    if not child:
        assert spilled().isdisjoint(found)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len([*parent.iterdir()]) == 2
print("ready", flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "waits":
    sys.stdin.read()
"""


def process(folder: Path, how: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(folder), how],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.mark.slow
def test_each_process_has_a_folder_of_its_own_and_removes_those_of_ended_ones(
    tmp_path: Path,
) -> None:
    """Two that share one read each other's rows, where their numbers are equal."""
    waiting = process(tmp_path, "waits")
    (of_waiting,) = tmp_path.iterdir()
    assert of_waiting.stat().st_mode & 0o777 == 0o700
    killed = process(tmp_path, "killed")
    assert killed.wait(HUNG_SECONDS) == -signal.SIGKILL
    assert len([*tmp_path.iterdir()]) == 2
    forked = process(tmp_path, "forked")
    assert forked.wait(HUNG_SECONDS) == 0
    assert [*tmp_path.iterdir()] == [of_waiting]
    waiting.communicate(timeout=HUNG_SECONDS)
    assert waiting.returncode == 0
    assert not [*tmp_path.iterdir()]


def test_without_a_folder_in_the_settings_it_lies_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_before: None
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert Path(str(bounds()["temp_directory"])).parent == tmp_path
    (tmp_path / "file").write_text("")
    bound_memory(DuckDBLimits(temp_directory=str(tmp_path / "file")))
    with pytest.raises(SettingsInvalid, match=r"DuckDB has no folder.*temp_directory: …"):
        bounds()


@pytest.mark.parametrize("most", [0, 10**9])
def test_a_full_disk_says_what_to_set(
    most: int, monkeypatch: pytest.MonkeyPatch, as_before: None
) -> None:
    monkeypatch.setattr(duckdb_in_utc, "MOST_IN_MEMORY", most)

    def full(*_: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pa.ipc, "new_file", full)
    expected = pytest.raises(MemoryExhausted, match="temp_directory") if not most else nullcontext()
    with expected:
        held(iter(VALUES.to_batches()), VALUES.schema)


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        ({"memory_limit": "much"}, "duckdb.memory_limit"),
        ({"memory_limit": "100%"}, "duckdb.memory_limit"),
        ({"memory_limit": "0GB"}, "duckdb.memory_limit"),
        ({"temp_directory": "spill"}, "`spill` is not absolute"),
        ({"threads": 3}, "duckdb.threads"),
    ],
)
def test_limits_that_cannot_be_are_refused(
    limits: dict[str, object], fault: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps({"root": str(tmp_path), "duckdb": limits}))
    with pytest.raises(SettingsInvalid, match=fault):
        load_settings(file)


@pytest.mark.parametrize("limit", ["50%", "4GB", "1.5 GiB", "900MB"])
def test_limits_are_taken_as_duckdb_writes_them(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_before: None
) -> None:
    monkeypatch.setenv("TIDEMARK_DUCKDB__MEMORY_LIMIT", limit)
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps({"root": str(tmp_path)}))
    bound_memory(load_settings(file).duckdb)
    with duckdb_in_utc.duckdb_in_utc() as connection:
        ((told,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    assert told.endswith(("GiB", "MiB"))
