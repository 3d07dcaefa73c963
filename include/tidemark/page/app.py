"""The page as a web application: who may see what is asked of its host, before anything is read.

Every route has a door, also that of scripts and styles. What is read is read in threads of
its own, at most _THREADS at once: a store that does not answer holds up this page, and not the
process that it lives in.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from importlib.resources import files
from pathlib import PurePath
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
from tidemark.page.reading import MOST_RUNS, PageReading, stream_dag
from tidemark.page.rejects import MOST_ROWS, keys_in, reject_lines
from tidemark.page.series import key_columns
from tidemark.page.tables import OpenTables
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.names import DAG_SUFFIXES
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.status.pipeline_status import PipelineStatus, file_status
from tidemark.runs.status.recent_runs import counted_once, run_of, totals_of
from tidemark.runs.status.recorded_status import all_statuses
from tidemark.runs.status.state import PipelineState
from tidemark.storage.duckdb_bounds import bound_threads
from tidemark.story.asked import NoRowNamed, row_options
from tidemark.story.explain import story_of
from tidemark.version import told_version

_LOG = logging.getLogger(__name__)
# What the address says.
Asked = Mapping[str, str]
_KEY = TypeAdapter(list[str | None])
_THREADS, _DUCKDB_THREADS = 4, 2
_PATIENCE_SECONDS = 30
_FRESH = timedelta(seconds=3)
# The worst first.
_WORST = tuple(reversed(PipelineState))
# Of the dates of gold that a chart begins with.
DAYS = 30
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
_STATIC = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Access(Protocol):
    """What whoever asks may see."""

    def sees(self, pipeline: str, dag: str | None) -> bool:
        """May they see this pipeline? `dag` is the Dag that its last run noted."""

    def opens(self, dag: str) -> bool:
        """Can they go to this Dag from here?"""


class Everything:
    """All of it, where there is no Airflow."""

    def sees(self, pipeline: str, dag: str | None) -> bool:
        return True

    def opens(self, dag: str) -> bool:
        return False


def page_app(
    settings: Callable[[], Settings],
    access: Callable[..., Access],
    now: Callable[[], datetime],
    login: str | None = None,
    door: Callable[..., Any] | None = None,
) -> FastAPI:
    """The application. `settings` are asked for at each request; `access` is FastAPI's dependency
    that lets somebody in, or raises. `login` is an address below the host's root that leads people
    to its login. `door` is what every route depends on, also that of scripts and styles, where it
    is not `access` itself.

    Its links are relative, so it may be mounted anywhere.
    """
    bound_threads(_DUCKDB_THREADS)
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
        self._tables, self._lock = OpenTables(), Lock()
        self._overview: tuple[datetime | None, tuple[PipelineStatus, ...]] = (None, ())
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
        reading = PageReading(name, self._settings(), self._tables)
        if reading.file is not None and let.sees(name, reading.dag):
            return RedirectResponse(f"../p/{name}", 303)
        return self._list([one for one in self._statuses(let) if dag == _dag(one)], "../", dag)

    def _list(self, shown: Sequence[PipelineStatus], up: str, dag: str | None = None) -> Response:
        in_order = sorted(shown, key=lambda one: (_WORST.index(one.state), one.name))
        rows = [(one, charts.bars_of(one.runs), totals_of(one.runs)) for one in in_order]
        folder = self._settings().pipelines
        return self._html("overview.html", up, rows=rows, folder=folder, dag=dag)

    def _statuses(self, let: Access) -> list[PipelineStatus]:
        with self._lock:
            # Who asks a moment later gets the same.
            now, (at, statuses) = self._now(), self._overview
            if at is None or not timedelta() <= now - at < _FRESH:
                statuses = all_statuses(self._settings(), now)
                # Those who waited for it, however long it took, get it too.
                self._overview = self._now(), statuses
        return [one for one in statuses if let.sees(one.name, _dag(one))]

    def _seen(self, let: Access, asked: Asked) -> PageReading:
        """404 where it is not to be seen: as where it is not."""
        reading = PageReading(asked["name"], self._settings(), self._tables)
        if reading.file is None or not let.sees(reading.name, reading.dag):
            raise HTTPException(404, f"There is no pipeline {reading.name} that you can see.")
        return reading

    def pipeline(self, let: Access, asked: Asked) -> Response:
        reading = self._seen(let, asked)
        assert reading.file is not None
        pipeline, rows = reading.pipeline, reading.runs
        tables = list(pipeline.tables) if pipeline else []
        drawn = asked["table"] if asked.get("table") in tables else next(iter(tables), None)
        marked = reading.corrections(pipeline, drawn) if pipeline and drawn else ()
        runs = counted_once([run_of(row) for row in rows])
        verdicts, sizes = reading.state()
        return self._html(
            "pipeline.html", "../", pipeline=pipeline, table=drawn, let=let, runs=runs,
            status=file_status(reading.file, reading.settings, self._now()), verdicts=verdicts,
            dag=reading.dag or reading.name,
            charts=charts.run_charts(rows[::-1], runs[::-1], sizes, drawn, marked),
            docs=reading.docs(), ledger=reading.ledger(), settings=reading.settings,
            is_cut=len(marked) >= MOST_CORRECTIONS, marked=len(marked), faults=reading.faults,
        )  # fmt: skip

    def _table(self, let: Access, asked: Asked) -> tuple[PageReading, Pipeline, str]:
        reading, table = self._seen(let, asked), asked["table"]
        pipeline = reading.pipeline
        if pipeline is None:
            raise HTTPException(
                409, f"The file of {reading.name} cannot be used; its page says why."
            )
        if table not in pipeline.tables:
            raise HTTPException(404, f"{reading.name} has no table {table}.")
        return reading, pipeline, table

    def table(self, let: Access, asked: Asked) -> Response:
        reading, pipeline, table = self._table(let, asked)
        find = asked.get("find", "")[:200]
        days = int(asked["days"]) if re.fullmatch(r"[1-9]\d{0,3}", asked.get("days", "")) else DAYS
        columns, closed_to, numbers = reading.gold(pipeline, table) or ([], None, ())
        corrections = reading.corrections(pipeline, table)
        measure = asked.get("measure", "")
        measure = measure if measure in numbers else next(iter(numbers), "")
        series = reading.series(pipeline, table, measure, find, days) if measure else None
        return self._html(
            "table.html", "../../../", pipeline=pipeline, table=table, of=pipeline.tables[table],
            columns=columns, closed_to=closed_to, numbers=numbers, measure=measure, series=series,
            chart=charts.with_corrections(series, measure, corrections) if series else None,
            corrections=corrections, checks=reading.checks(table), faults=reading.faults,
            find=find, days=days, places=reading.warehouse.places, most=MOST_CORRECTIONS,
            keys=key_columns(operator_of(pipeline, table)), lookups=pipeline.lookups_of(table),
        )  # fmt: skip

    def story(self, let: Access, asked: Asked) -> Response:
        reading, pipeline, table = self._table(let, asked)
        columns = key_columns(operator_of(pipeline, table))
        try:
            key = dict(zip(columns, _KEY.validate_json(asked.get("key", "")), strict=True))
        except ValueError as error:
            told = f"`key` lists {', '.join(columns) or 'nothing'} in JSON, as text or null."
            raise HTTPException(400, f"No row can be told by that: {told}") from error
        try:
            found = story_of(pipeline, reading.settings, table, asked.get("window", ""), key)
        except NoRowNamed as error:
            raise HTTPException(400, f"No row can be told by that: {error}") from error
        except (GoldNotFound, RowUnclear) as error:
            raise HTTPException(404, str(error)) from error
        options = row_options(found.window_start, found.key)
        line = f"tidemark explain {pipeline.name} {table} {options}"
        return self._html("story.html", "../../../../", story=found, command=line)

    def rejects(self, let: Access, asked: Asked) -> Response:
        reading, reason = self._seen(let, asked), asked.get("reason", "")
        counts, pipeline = reading.rejected(), reading.pipeline
        examples = [
            (one, keys_in(one.raw, pipeline) if pipeline else {})
            for one in reading.examples(reason or None)
        ]
        return self._html(
            "rejects.html", "../../", name=reading.name, reason=reason, examples=examples,
            totals=charts.totals(counts), chart=charts.reject_chart(counts, MOST_RUNS),
            dropped=reading.dropped(), faults=reading.faults, most=MOST_ROWS,
        )  # fmt: skip

    def download(self, let: Access, asked: Asked) -> Response:
        reading = self._seen(let, asked)
        headers = {
            "Content-Disposition": f'attachment; filename="{reading.name}-rejects.jsonl"',
            "Cache-Control": "no-store",
        }
        lines = reject_lines(reading.all_rejects(asked.get("reason") or None))
        return StreamingResponse(lines, media_type="application/jsonlines", headers=headers)

    async def refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        up = "../" * max(path.count("/") - 1, 0)
        login = f"{up}../{self._login}" if self._login and error.status_code == 401 else None
        response = self._html("refused.html", up, error.status_code, why=error.detail, login=login)
        response.headers.update(error.headers or {})
        return response


async def _with_headers(
    request: Request, call: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call(request)
    response.headers.update(HEADERS)
    return response


async def _static(name: str) -> Response:
    folder = files("tidemark.page") / "static"
    there = {one.name: one for of in (folder, folder / "uplot") for one in of.iterdir()}
    kind = _STATIC.get(PurePath(name).suffix)
    if name not in there or kind is None:
        raise HTTPException(404, "There is no such file.")
    headers = {"Cache-Control": "max-age=3600"}
    return Response(there[name].read_bytes(), media_type=kind, headers=headers)


def _dag(status: PipelineStatus) -> str | None:
    return stream_dag(run.dag for run in status.runs)
