"""A schema registry that keeps to Confluent's API, as far as readers and writers of schemas ask.

Source: docs.confluent.io, *Schema Registry API Reference*.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

Answer = tuple[int, Any]


@dataclass
class Registry:
    """`schemas` by id, which is their GUID's number too; `versions`: their ids by subject, from
    version 1. `login`: `user:password` that it asks for. `asked`: the paths of requests, in order.
    `answers`: what it says to all."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, list[int]] = field(default_factory=dict)
    login: str | None = None
    asked: list[str] = field(default_factory=list)
    answers: Answer | None = None

    def add(
        self,
        subject: str,
        schema: Any,
        references: Sequence[Mapping[str, Any]] = (),
        kind: str | None = None,
        number: int | None = None,
    ) -> int:
        """Register a schema; its id."""
        number = max(self.schemas, default=0) + 1 if number is None else number
        text = schema if isinstance(schema, str) else json.dumps(schema)
        told = {"schema": text, "references": list(references)}
        self.schemas[number] = {**told, **({"schemaType": kind} if kind else {})}
        self.versions.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, login: str | None) -> Answer:
        """What it says to a request."""
        self.asked.append(path)
        if self.answers is not None:
            return self.answers
        if self.login is not None and login != self.login:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if found := re.fullmatch(r"/schemas/(?:ids/(\d+)|guids/([0-9a-f-]{36}))", path):
            number = int(found[1]) if found[1] else UUID(found[2]).int
            if (known := self.schemas.get(number)) is None:
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, known
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+)", path):
            ids = self.versions.get(subject := unquote(found[1]), [])
            if not 0 < int(found[2]) <= len(ids):
                return 404, {"error_code": 40402, "message": "Version not found"}
            number = ids[int(found[2]) - 1]
            told = {"subject": subject, "version": int(found[2]), "id": number}
            return 200, {**told, **self.schemas[number]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def started_registry() -> Iterator[Registry]:
    """One that answers until it is left."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            login = base64.b64decode(given).decode() if given else None
            status, content = registry.answer(urlsplit(self.path).path, login)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
