"""moto's server, whose conditional writes are atomic, as those of S3 are.

    python atomic_moto.py PORT [without-conditions] [requests=FILE]

moto itself looks for an object and writes it in two steps, so that of two requests at once both
may create the same one. `without-conditions` is a store that does not know conditional writes, and
passes over their headers. Into `FILE` each request is written as a line, so that tests count them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


def one_write_at_a_time(app: Any, knows_conditions: bool) -> Any:
    lock = Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET":
            return list(app(environ, start_response))
        if not knows_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with lock:
            return list(app(environ, start_response))

    return serve


def noting_requests(app: Any, into: Path) -> Any:
    file = into.open("a", buffering=1)

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = environ["PATH_INFO"], environ["QUERY_STRING"]
        file.write(f"{json.dumps([environ['REQUEST_METHOD'], *asked])}\n")
        answer: Iterable[bytes] = app(environ, start_response)
        return answer

    return serve


if __name__ == "__main__":
    backend = DomainDispatcherApplication(create_backend_app)
    app = one_write_at_a_time(backend, "without-conditions" not in sys.argv)
    for argument in sys.argv:
        if argument.startswith("requests="):
            app = noting_requests(app, Path(argument.removeprefix("requests=")))
    run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
