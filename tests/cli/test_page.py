"""`tidemark page`: it prints an address that holds a token, serves on loopback, and ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit.running import Place
from tidemark.cli.main import app


@pytest.mark.slow
def test_it_prints_its_address_and_serves_until_it_is_ended(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    command = [sys.executable, "-m", "tidemark", "page"]
    with subprocess.Popen(command, env={**_environment(), **place.variables}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S{40,}", told)
            cookies = urllib.request.HTTPCookieProcessor(CookieJar())
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
            with opener.open(address, timeout=60) as answer:
                assert "clicks" in answer.read().decode()
                assert "token" not in answer.url
        finally:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = CliRunner().invoke(app, ["page", "--port", port], env=place.variables)
    assert told.exit_code == 2
    assert f"{port} cannot be had" in told.output


def _environment() -> dict[str, str]:
    return {name: of for name, of in os.environ.items() if not name.startswith("TIDEMARK_")}
