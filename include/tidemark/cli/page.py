"""`tidemark page`: all pipelines in a browser, on this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.options import SettingsFile
from tidemark.pipeline.settings.settings import load_settings


def page(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="0: any that is free.", show_default=True)
    ] = 0,
    settings: SettingsFile = None,
) -> None:
    """Show pipelines, tables and rejects in a browser, until Ctrl-C. It only reads.

    On 127.0.0.1 alone; the address that is printed holds a token, without which nothing is shown.
    """
    load_settings(settings)
    try:
        from tidemark.page.local import serve_page
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "jinja2", "uvicorn", "starlette", "markupsafe"):
            raise
        print(
            f"The page needs {error.name}, which is not installed: "
            "`pip install 'tidemark-streaming[page]'`."
        )
        raise typer.Exit(1) from None

    def tell(address: str) -> None:
        print(f"The page, until Ctrl-C: {address}", flush=True)

    try:
        serve_page(lambda: load_settings(settings), lambda: datetime.now(UTC), port, tell)
    except OSError as error:
        raise typer.BadParameter(f"{port} cannot be had: {error}", param_hint="--port") from error
