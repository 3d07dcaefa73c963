"""moto's server, whose conditional writes are atomic, as those of S3 are.

    python atomic_moto.py PORT [without-conditions]

moto itself looks for an object and writes it in two steps, so that of two requests at once both
may create the same one. `without-conditions` is a store that does not know conditional writes, and
passes over their headers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
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


if __name__ == "__main__":
    backend = DomainDispatcherApplication(create_backend_app)
    app = one_write_at_a_time(backend, "without-conditions" not in sys.argv)
    run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
