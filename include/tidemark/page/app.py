"""The page as a web application: who may see what is asked of its host, before anything is read.

Every route has a door, also that of scripts and styles. What is read is read in threads of
its own, at most _THREADS at once: a store that does not answer holds up this page, and not the
process that it lives in.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib.resources import files
from threading import Lock
from typing import Any, Protocol

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException as StarletteHTTPException

from tidemark.errors import GoldNotFound, RowUnclear
from tidemark.operators.kinds import operator_of
from tidemark.page import charts, texts
from tidemark.page.corrections import MOST as MOST_CORRECTIONS
from tidemark.page.reading import MOST_RUNS, PageReading, worst_first
from tidemark.page.rejects import MOST_ROWS, reject_lines
from tidemark.page.series import key_columns
from tidemark.page.tables import OpenTables
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import DAG_SUFFIXES
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.status.pipeline_status import PipelineStatus
from tidemark.runs.status.recent_runs import totals_of
from tidemark.runs.status.recorded_status import all_statuses
from tidemark.storage.duckdb_in_utc import bound_threads
from tidemark.storage.warehouse import Warehouse
from tidemark.story.explain import story_of
from tidemark.version import told_version

_LOG = logging.getLogger(__name__)
# What the address says.
Asked = Mapping[str, str]
_KEY = TypeAdapter(list[str | None])
_THREADS = 4
_PATIENCE_SECONDS = 30
_FRESH = timedelta(seconds=3)
# Of the dates of gold that a chart begins with.
DAYS = 30
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
_STATIC = {
    "page.js": "text/javascript",
    "page.css": "text/css",
    "uPlot.iife.min.js": "text/javascript",
    "uPlot.min.css": "text/css",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}


class Access(Protocol):
    """What whoever asks may see."""

    def sees(self, pipeline: str, dag: str | None) -> bool:
        """May they see this pipeline? `dag` is the Dag that its last run noted."""

    def dag_of(self, pipeline: str, dag: str | None) -> str | None:
        """The Dag of it that they can go to from here; None where there is none."""


class Everything:
    """All of it, where there is no Airflow."""

    def sees(self, pipeline: str, dag: str | None) -> bool:
        return True

    def dag_of(self, pipeline: str, dag: str | None) -> str | None:
        return None


@dataclass
class _Overview:
    """What all pipelines' status was a moment ago: who asks meanwhile gets the same."""

    at: datetime | None = None
    statuses: tuple[PipelineStatus, ...] = ()


def page_app(
    settings: Callable[[], Settings],
    access: Callable[..., Access],
    now: Callable[[], datetime],
    login: str | None = None,
    threads: int = 2,
    door: Callable[..., Any] | None = None,
) -> FastAPI:
    """The application. `settings` are asked for at each request; `access` is FastAPI's dependency
    that lets somebody in, or raises. `login` is an address below the host's root that leads people
    to its login. DuckDB takes at most so many `threads`. `door` is what every route depends on,
    also that of scripts and styles, where it is not `access` itself.

    Its links are relative, so it may be mounted anywhere.
    """
    bound_threads(threads)
    app = FastAPI(
        dependencies=[Depends(door or access)], docs_url=None, redoc_url=None, openapi_url=None
    )
    page = _Page(settings, now, login)
    app.middleware("http")(_with_headers)
    app.add_exception_handler(StarletteHTTPException, page.refused)

    def route(make: Callable[[Access, Asked], Response]) -> Callable[..., Awaitable[Response]]:
        async def answer(request: Request, let: Access = Depends(access)) -> Response:  # noqa: B008
            asked = {**request.query_params, **request.path_params}
            return await page.made(partial(make, let, asked))

        return answer

    for path, make in {
        "/": page.overview,
        "/p/{name}": page.pipeline,
        "/p/{name}/t/{table}": page.table,
        "/p/{name}/t/{table}/story": page.story,
        "/p/{name}/rejects": page.rejects,
        "/p/{name}/rejects.jsonl": page.download,
        "/dag/{dag}": page.of_dag,
    }.items():
        app.add_api_route(path, route(make), response_model=None)
    app.add_api_route("/static/{name}", _static, response_model=None)
    return app


class _Page:
    """Makes the pages; what reads is called in a thread."""

    def __init__(
        self, settings: Callable[[], Settings], now: Callable[[], datetime], login: str | None
    ) -> None:
        self._settings, self._now, self._login = settings, now, login
        self._tables, self._overview, self._lock = OpenTables(), _Overview(), Lock()
        self._pool = ThreadPoolExecutor(_THREADS, "tidemark-page")
        self._templates = Environment(
            loader=PackageLoader("tidemark.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        # Steps are told in their order.
        self._templates.policies["json.dumps_kwargs"] = {}
        self._templates.filters |= texts.FILTERS
        self._templates.globals |= {"version": told_version(), "MOST_RUNS": MOST_RUNS}

    async def made(self, make: Callable[[], Response]) -> Response:
        waiting = asyncio.get_running_loop().run_in_executor(self._pool, make)
        try:
            return await asyncio.wait_for(waiting, _PATIENCE_SECONDS)
        except HTTPException:
            raise
        except TimeoutError:
            told = f"The store has not answered within {_PATIENCE_SECONDS} s. Nothing is lost by "
            raise HTTPException(503, f"{told}that: load the page again.") from None
        except Exception as error:
            _LOG.exception("a page could not be made")
            first = str(error).partition("\n")[0]
            raise HTTPException(500, f"{type(error).__name__}: {first}") from error

    @property
    def _reading(self) -> PageReading:
        return PageReading(self._settings(), self._tables)

    def _html(self, template: str, up: str, code: int = 200, **values: Any) -> HTMLResponse:
        values |= {"up": up, "now": self._now(), "code": code}
        text = self._templates.get_template(template).render(values)
        return HTMLResponse(text, code, {"Cache-Control": "no-store"})

    def overview(self, let: Access, _: Asked) -> Response:
        return self._list(self._statuses(let), "")

    def of_dag(self, let: Access, asked: Asked) -> Response:
        """The pipelines of a Dag, as Airflow asks for its tab: of any Dag, and as anybody."""
        dag = asked["dag"]
        name = next((dag.removesuffix(end) for end in DAG_SUFFIXES if dag.endswith(end)), dag)
        reading = self._reading
        if reading.file_of(name) is not None and let.sees(name, reading.dag(name)):
            return RedirectResponse(f"../p/{name}", 303)
        return self._list([one for one in self._statuses(let) if dag == _dag(one)], "../", dag)

    def _list(self, shown: Sequence[PipelineStatus], up: str, dag: str | None = None) -> Response:
        rows = [(one, charts.bars_of(one.runs), totals_of(one.runs)) for one in worst_first(shown)]
        folder = self._settings().pipelines
        return self._html("overview.html", up, rows=rows, folder=folder, dag=dag)

    def _statuses(self, let: Access) -> list[PipelineStatus]:
        reading = self._reading
        with self._lock:
            now, held = self._now(), self._overview
            if held.at is None or not timedelta() <= now - held.at < _FRESH:
                held.statuses, held.at = all_statuses(reading.settings, now), now
        return [one for one in held.statuses if let.sees(one.name, _dag(one))]

    def _seen(self, let: Access, asked: Asked) -> tuple[PageReading, str, str | None]:
        """The pipeline, and the Dag of it that they can go to. 404 where it is not to be seen: as
        where it is not."""
        reading, name = self._reading, asked["name"]
        known = reading.file_of(name) is not None
        dag = reading.dag(name) if known else None
        if not known or not let.sees(name, dag):
            raise HTTPException(404, f"There is no pipeline {name} that you can see.")
        return reading, name, let.dag_of(name, dag)

    def pipeline(self, let: Access, asked: Asked) -> Response:
        reading, name, dag = self._seen(let, asked)
        status = reading.status(name, self._now())
        assert status is not None
        view, loaded = reading.pipeline_view(status), reading.pipeline(name)
        tables = list(loaded.tables) if loaded else []
        drawn = asked["table"] if asked.get("table") in tables else next(iter(tables), None)
        corrections = view.corrections.get(drawn or "", ())
        return self._html(
            "pipeline.html", "../", status=status, view=view, pipeline=loaded, table=drawn,
            charts=charts.run_charts(view.runs, drawn, corrections),
            dag=dag, settings=reading.settings, most=MOST_CORRECTIONS,
        )  # fmt: skip

    def _table(self, let: Access, asked: Asked) -> tuple[PageReading, Pipeline, str]:
        reading, name, _ = self._seen(let, asked)
        pipeline, table = reading.pipeline(name), asked["table"]
        if pipeline is None:
            raise HTTPException(409, f"The file of {name} cannot be used; its page says why.")
        if table not in pipeline.tables:
            raise HTTPException(404, f"{name} has no table {table}.")
        return reading, pipeline, table

    def table(self, let: Access, asked: Asked) -> Response:
        reading, pipeline, table = self._table(let, asked)
        name, find = pipeline.name, asked.get("find", "")[:200]
        days = int(asked["days"]) if re.fullmatch(r"[1-9]\d{0,3}", asked.get("days", "")) else DAYS
        view = reading.table_view(pipeline, table, asked.get("measure", ""), find, days)
        places = Warehouse.of(name, reading.settings).places
        drawn = None
        if view.series is not None and view.measure is not None:
            drawn = charts.series_chart(view.series, view.measure, view.closed_to, view.corrections)
        return self._html(
            "table.html", "../../../", name=name, table=table, of=pipeline.tables[table],
            pipeline=pipeline, view=view, chart=drawn, find=find, days=days, places=places,
            keys=key_columns(operator_of(pipeline, table)), most=MOST_CORRECTIONS,
            lookups=pipeline.lookups_of(table),
        )  # fmt: skip

    def story(self, let: Access, asked: Asked) -> Response:
        reading, pipeline, table = self._table(let, asked)
        columns = key_columns(operator_of(pipeline, table))
        try:
            values = _KEY.validate_json(asked.get("key", ""))
            if len(values) != len(columns):
                raise ValueError(f"the keys of {table} are {', '.join(columns) or 'none'}")
            key = dict(zip(columns, values, strict=True))
            found = story_of(pipeline, reading.settings, table, asked.get("window", ""), key)
        except ValueError as error:
            raise HTTPException(400, f"No row can be told by that: {error}") from error
        except (GoldNotFound, RowUnclear) as error:
            raise HTTPException(404, str(error)) from error
        told = [
            part
            for name, of in key.items()
            for part in ("--key", f"{name}:null" if of is None else f"{name}={of}")
        ]
        at = f"{found.window_start:%Y-%m-%dT%H:%M:%SZ}"
        line = shlex.join(["tidemark", "explain", pipeline.name, table, "--window", at, *told])
        return self._html("story.html", "../../../../", story=found, command=line)

    def rejects(self, let: Access, asked: Asked) -> Response:
        reading, name, _ = self._seen(let, asked)
        reason = asked.get("reason", "")
        view = reading.rejects_view(name, reason or None)
        return self._html(
            "rejects.html", "../../", name=name, reason=reason, view=view, most=MOST_ROWS,
            totals=charts.totals(view.counts), chart=charts.reject_chart(view.counts, MOST_RUNS),
        )  # fmt: skip

    def download(self, let: Access, asked: Asked) -> Response:
        reading, name, _ = self._seen(let, asked)
        lines = reject_lines(reading.rejects(name, asked.get("reason") or None))
        headers = {
            "Content-Disposition": f'attachment; filename="{name}-rejects.jsonl"',
            "Cache-Control": "no-store",
        }
        return StreamingResponse(lines, media_type="application/jsonlines", headers=headers)

    async def refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        return self._told(request, error.status_code, str(error.detail), error.headers)

    def _told(self, request: Request, status: int, why: str, headers: Any) -> Response:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        up = "../" * max(path.count("/") - 1, 0)
        login = f"{up}../{self._login}" if self._login and status == 401 else None
        response = self._html("refused.html", up, status, why=why, login=login)
        response.headers.update(headers or {})
        return response


async def _with_headers(
    request: Request, call: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call(request)
    response.headers.update(HEADERS)
    return response


async def _static(name: str) -> Response:
    if name not in _STATIC:
        raise HTTPException(404, "There is no such file.")
    folder = files("tidemark.page") / "static"
    content = (folder / "uplot" / name if name.startswith("uPlot") else folder / name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "max-age=3600"})


def _dag(status: PipelineStatus) -> str | None:
    return next((run.dag for run in status.runs if run.dag), None)
