"""The page on loopback, for whoever has its address: it holds a token, as those of notebooks do.

The token comes once in the address, and is a cookie from then on. A request that names another host
is refused: a name of somebody's that leads here would let their scripts ask.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable
from datetime import datetime
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from tidemark.page.app import HEADERS, Access, Everything, page_app
from tidemark.pipeline.settings.settings import Settings

HOST = "127.0.0.1"


def local_app(
    settings: Callable[[], Settings], now: Callable[[], datetime], token: str, port: int
) -> FastAPI:
    """The application for one token, on one port."""
    # Ports share cookies.
    name = f"tidemark_{port}"
    hosts = {f"{host}:{port}" for host in (HOST, "localhost")}

    def access(request: Request) -> Access:
        given = request.cookies.get(name, "")
        if not secrets.compare_digest(given.encode(), token.encode()):
            raise HTTPException(
                401, "Open the address that `tidemark page` printed: it holds a token."
            )
        return Everything()

    app = page_app(settings, access, now)

    @app.middleware("http")
    async def at_the_door(
        request: Request, call: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.headers.get("host", "").lower() not in hosts:
            return Response("This host is not known here.", 421, HEADERS)
        asked = dict(request.query_params)
        given = asked.pop("token", None)
        if given is None or not secrets.compare_digest(given.encode(), token.encode()):
            return await call(request)
        rest = f"?{urlencode(asked)}" if asked else ""
        answer = RedirectResponse(f"{request.url.path}{rest}", 303, HEADERS)
        answer.set_cookie(name, token, httponly=True, samesite="strict")
        return answer

    return app


def serve_page(
    settings: Callable[[], Settings],
    now: Callable[[], datetime],
    port: int,
    tell: Callable[[str], object],
) -> None:
    """Serve until a signal ends it. `tell` gets the address, once it can be asked; port 0 is any
    that is free. Raises OSError where the port cannot be had."""
    token = secrets.token_urlsafe(32)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
        port = int(listening.getsockname()[1])
        app = local_app(settings, now, token, port)
        # No line for each request: addresses hold the token.
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, proxy_headers=False, server_header=False
        )
        tell(f"http://{HOST}:{port}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
