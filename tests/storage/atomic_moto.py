"""moto's server, whose conditional writes are atomic, as those of S3 are.

    python atomic_moto.py PORT

moto itself looks for an object and writes it in two steps, so that of two requests at once both
may create the same one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


def one_write_at_a_time(app: Any) -> Any:
    lock = Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET":
            return list(app(environ, start_response))
        with lock:
            return list(app(environ, start_response))

    return serve


if __name__ == "__main__":
    app = one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
