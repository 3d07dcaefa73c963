"""An S3 store for tests: a real HTTP server (moto's) on a free port of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from tidemark.storage.files import write_bytes

MOTO = Path(__file__).with_name("atomic_moto.py")


@contextmanager
def s3_server(knows_conditions: bool = True) -> Iterator[dict[str, str]]:
    """The storage options of a store with an empty bucket `lake`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, MOTO, str(port), *([] if knows_conditions else ["without-conditions"])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        make_bucket(f"{endpoint}/lake")
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
    finally:
        server.terminate()
        server.wait(10)


def make_bucket(url: str) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=5)
        except (URLError, ConnectionError):
            assert time.monotonic() < end, "moto_server did not start"
            time.sleep(0.1)
        else:
            return


def copy_to_store(folder: Path, uri: str, options: dict[str, str]) -> None:
    """Put all files below a folder where a URI of the store says, by the same names."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".crc":
            write_bytes(f"{uri}/{path.relative_to(folder).as_posix()}", path.read_bytes(), options)
