"""spark-submit where drivers run in another container: `python -m deploy.submit ARGUMENTS`.

Asks `deploy.drivers` at the socket that DRIVERS_SOCKET names, waits, and ends as the driver did.
Ended itself, however that came, its side of the socket closes, and the driver is ended there.
"""

from __future__ import annotations

import array
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping

# What a run is told, and the flags of its JVM. All else stays here: Airflow's keys, its database.
ALLOWED = re.compile(r"TIDEMARK_\w+|SPARK_SUBMIT_OPTS|SPARK_LAUNCHER_OPTS|SPARK_DRIVER_MEMORY")
# As sysexits.h has it: a retry can help.
_UNREACHABLE = 75


def for_driver(variables: Mapping[str, str]) -> dict[str, str]:
    """What a driver gets of these variables: those that are allowed, and those that
    DRIVERS_VARIABLES names (AIRFLOW_CONN_EVENTS, a connection to Kafka that Airflow keeps)."""
    named = variables.get("DRIVERS_VARIABLES", "").split()
    return {
        name: value for name, value in variables.items() if ALLOWED.fullmatch(name) or name in named
    }


def submit(place: str, arguments: list[str]) -> int:
    """The exit status of the driver."""
    request = {"arguments": arguments, "environment": for_driver(os.environ)}
    outputs = array.array("i", [sys.stdout.fileno(), sys.stderr.fileno()])
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(place)
        except OSError as error:
            print(f"No driver was started: {place}: {error}. Is `drivers` up?", file=sys.stderr)
            return _UNREACHABLE
        text = json.dumps(request).encode() + b"\n"
        sent = asked.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, outputs)])
        asked.sendall(text[sent:])
        answer = b"".join(iter(lambda: asked.recv(2**16), b""))
    told = json.loads(answer) if answer else {"error": "the container of the drivers ended"}
    if "error" in told:
        print(f"The driver ended without a status: {told['error']}.", file=sys.stderr)
        return _UNREACHABLE
    status = int(told["status"])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(submit(os.environ["DRIVERS_SOCKET"], sys.argv[1:]))
