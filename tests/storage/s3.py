"""An S3 store for tests: a real HTTP server (moto's) on a free port of this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import parse_qs, quote, unquote

from tidemark.storage.files import write_bytes

MOTO = Path(__file__).with_name("atomic_moto.py")


@contextmanager
def s3_server(
    knows_conditions: bool = True, requests: Path | None = None
) -> Iterator[dict[str, str]]:
    """The storage options of a store with an empty bucket `lake`; it writes each request down in
    a file `requests`, for `Requests`."""
    arguments = [] if knows_conditions else ["without-conditions"]
    arguments += [f"requests={requests}"] if requests else []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, MOTO, str(port), *arguments],
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


@dataclass(frozen=True)
class Requests:
    """Those that a store has written down from some moment on."""

    file: Path
    begin: int = 0

    def from_now(self) -> Requests:
        return Requests(self.file, self.file.stat().st_size)

    def count(self) -> Counter[str]:
        """How many of each: `GET clicks/bronze/_delta_log/`, without the file's own name."""
        with self.file.open() as lines:
            lines.seek(self.begin)
            return Counter(map(_kind, lines))


def _kind(line: str) -> str:
    method, path, query = json.loads(line)
    _, _, name = path.removeprefix("/").partition("/")
    asked = parse_qs(query)
    if "list-type" in asked:
        method, name = "LIST", f"{asked.get('prefix', [''])[0].rstrip('/')}/"
    return f"{method} {name.rpartition('/')[0]}/"


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


def put_folder(options: dict[str, str], name: str) -> None:
    """An object whose name ends in a slash, as S3A makes of a folder and obstore cannot."""
    url = f"{options['AWS_ENDPOINT_URL']}/lake/{quote(unquote(name))}"
    urllib.request.urlopen(urllib.request.Request(url, data=b"", method="PUT")).close()


def copy_to_store(folder: Path, uri: str, options: dict[str, str]) -> None:
    """Put all files below a folder where a URI of the store says, by the same names."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".crc":
            write_bytes(f"{uri}/{path.relative_to(folder).as_posix()}", path.read_bytes(), options)
