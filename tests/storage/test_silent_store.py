"""A store that accepts and never answers is given up at one time limit, which is told."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from tests.kit.running import Place
from tidemark.cli.main import app
from tidemark.errors import StorageUnavailable
from tidemark.pipeline.settings import storage_options
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.files import list_files, read_bytes, stat_files, write_bytes

LIMIT = 1
ROOT = "s3://lake/root"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The options of such a store; the time limit is a second."""
    monkeypatch.setattr(storage_options, "STORE_SECONDS", LIMIT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    held.append(server.accept()[0])

        Thread(target=accept, daemon=True).start()
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        server.shutdown(socket.SHUT_RDWR)
        for one in held:
            one.close()


@pytest.mark.slow
def test_each_kind_of_request_is_given_up_at_the_limit(silent: dict[str, str]) -> None:
    place = f"{ROOT}/a"
    for ask in (
        lambda: read_bytes(place, silent),
        lambda: write_bytes(place, b"", silent, create_only=True),
        lambda: list_files(ROOT, silent),
        lambda: stat_files([place], silent),
        TablePlace(f"{ROOT}/table", silent).open,
    ):
        began = time.monotonic()
        with pytest.raises(StorageUnavailable, match="did not answer within 1 s"):
            ask()
        assert time.monotonic() - began < 2 * LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("run", "clicks"),
        ("rewind", "clicks", "--apply"),
        ("ledger", "show", "clicks"),
        ("ledger", "rebuild", "clicks"),
        ("lease", "show", "clicks"),
        ("lease", "release", "clicks"),
        ("maintain", "clicks", "--apply"),
        ("checkpoint", "housekeep", "clicks", "--apply"),
        ("checkpoint", "inspect", "clicks"),
        ("state", "compact", "clicks"),
        ("migrate", "clicks"),
        ("doctor", "--without-spark"),
        ("status", "clicks"),
        ("status",),
        ("accept", "clicks", "--reason", "for a test"),
    ],
    ids=" ".join,
)
def test_a_command_ends_with_75_and_says_so(
    tmp_path: Path, silent: dict[str, str], command: tuple[str, ...]
) -> None:
    for name in ("clicks", "more", "others"):
        Place(tmp_path, name=name).write_file()
    options = "".join(f'  {name}: "{value}"\n' for name, value in silent.items())
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        f"root: {ROOT}\npipelines: {tmp_path}/pipelines\nstorage_options:\n{options}"
    )
    began = time.monotonic()
    ended = CliRunner().invoke(app, [*command, "--settings", str(settings)])
    took = time.monotonic() - began
    assert "did not answer within 1 s" in " ".join((ended.stdout + ended.stderr).split())
    assert "Spark" not in ended.stderr
    assert ended.exit_code == (26 if command[0] == "status" else 75)
    assert took < 5 * LIMIT
