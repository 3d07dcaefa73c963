"""Starts Spark's drivers for Airflow's tasks, as another user: `python -m deploy.drivers SOCKET`.

A driver runs what pipelines bring. So it runs in a container of its own, which has nothing of
Airflow's: `deploy.submit`, under the name spark-submit in the scheduler's container, asks for one
by this socket, and hands over its own output.

The life of a driver:
1. asked for: arguments, the variables that the other side lets through, where its output goes;
2. started in a session of its own, with this process's environment and those variables;
3. ended: who asked is told the exit status. Where that one is gone before (a task that was ended,
   a scheduler that died), all processes of the session are: the next run finishes what it began.
A kill of this process ends its container, and the drivers with it.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from tidemark.storage.processes import end_processes, session_members

# Between SIGTERM and SIGKILL.
GRACE = 3.0
_LONGEST = 2**20


def serve(place: Path, command: Sequence[str]) -> None:
    """Take requests for ever. Whoever may write to the socket may start drivers."""
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        os.umask(0o007)
        server.bind(str(place))
        server.listen()
        while True:
            asked, _ = server.accept()
            Thread(target=_answer, args=(asked, command), daemon=True).start()


def _answer(asked: socket.socket, command: Sequence[str]) -> None:
    with asked:
        outputs: list[int] = []
        try:
            request, outputs = receive(asked)
            driver = subprocess.Popen(
                [*command, *request["arguments"]],
                env={**os.environ, **request["environment"]},
                stdin=subprocess.DEVNULL,
                stdout=outputs[0],
                stderr=outputs[1],
                start_new_session=True,
            )
        except Exception as error:  # noqa: BLE001  whoever asked tells it, and goes on
            told = {"error": f"{type(error).__name__}: {error}"}
        else:
            told = {"status": _ended(driver, asked)}
        finally:
            for one in outputs:
                os.close(one)
        with suppress(OSError):
            asked.sendall(json.dumps(told).encode() + b"\n")


def receive(asked: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One line of JSON, and two files with its first bytes."""
    size = array.array("i").itemsize
    text, messages, _, _ = asked.recvmsg(2**16, socket.CMSG_LEN(2 * size))
    files = array.array("i")
    for _, kind, data in messages:
        if kind == socket.SCM_RIGHTS:
            files.frombytes(data[: len(data) - len(data) % size])
    while not text.endswith(b"\n"):
        more = asked.recv(2**16)
        if not more or len(text) > _LONGEST:
            raise ValueError("the request is cut off or too long")
        text += more
    return json.loads(text), list(files)


def _ended(driver: subprocess.Popen[bytes], asked: socket.socket) -> int:
    """Its exit status; it is ended as soon as nobody waits for that any more."""
    while driver.poll() is None:
        gone, _, _ = select.select([asked], [], [], 0.2)
        if gone and not asked.recv(1):
            _end(driver)
    return driver.returncode


def _end(driver: subprocess.Popen[bytes]) -> None:
    """All of its session: the JVM, Python beside it, and Spark's Python workers, which have a
    process group of their own."""
    end_processes(session_members(driver.pid), GRACE)
    driver.wait()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:] or ["spark-submit"])
