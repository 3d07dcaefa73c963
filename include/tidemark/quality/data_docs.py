"""Data Docs: static pages of what expectations said, a folder for each run.

Great Expectations renders the pages. Its site builder is left out: it writes 4 MB of pictures and
fonts beside pages of 30 kB that name none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from tidemark.commit_point import commit_point
from tidemark.quality.expectations import TableExpectations
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.warehouse import Warehouse

# The renderer's pages take their styles from the web. These make them readable without it, and
# leave out what leads nowhere: the way to a site's start, and an advertisement.
_STYLE = """<style>
body { font-family: sans-serif; margin: 1rem; }
table { border-collapse: collapse; margin-bottom: 1rem; }
td, th { border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; }
nav.sticky-top, footer { display: none !important; }
</style>
"""


@commit_point(
    "data docs",
    after_a_kill="before, after and in between: pages that the next validation writes anew",
)
def write_docs(
    warehouse: Warehouse,
    run_id: str,
    time: datetime,
    judged: Sequence[TableExpectations],
    keep: int,
) -> str:
    """Write a run's pages, an index first among them, and remove those of the oldest runs.

    The place of the index. A repeat writes them anew. `time` is in UTC.
    """
    places, options = warehouse.places, warehouse.options
    folder = places.docs_of(run_id)
    for table in judged:
        page = _page(places.pipeline, run_id, time, table)
        write_bytes(f"{folder}/{table.name}.html", page.encode(), options)
    index = f"{folder}/index.html"
    write_bytes(index, _index(places.pipeline, run_id, judged).encode(), options)
    _prune(warehouse.file_at(places.data_docs), keep)
    return index


def _prune(docs: FilePlace, keep: int) -> None:
    """Remove all pages but those of the runs that were written last."""
    runs: dict[str, list[str]] = {}
    written: dict[str, datetime] = {}
    for place, facts in docs.files().items():
        run = place.rsplit("/", 1)[0]
        runs.setdefault(run, []).append(place)
        written[run] = max(written.get(run, facts.modified), facts.modified)
    for run in sorted(runs, key=lambda run: written[run], reverse=True)[keep:]:
        docs.remove_files(runs[run])


def _page(pipeline: str, run_id: str, time: datetime, table: TableExpectations) -> str:
    from great_expectations import __version__
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    good = sum(result.success for result in table.results)
    meta = {
        "run_id": {"run_name": run_id, "run_time": time.isoformat()},
        "active_batch_definition": {"datasource_name": pipeline, "data_asset_name": table.name},
        "batch_markers": {},
        "validation_time": time.isoformat(),
        "great_expectations_version": __version__,
    }
    whole = ExpectationSuiteValidationResult(
        success=good == len(table.results),
        results=list(table.results),
        suite_name=f"{pipeline} {table.name}",
        statistics=_statistics(good, len(table.results)),
        suite_parameters={},
        meta=meta,
    )
    renderer: Any = ValidationResultsPageRenderer(run_info_at_end=True)
    view: Any = DefaultJinjaPageView()
    page = str(view.render(renderer.render(whole)))
    return page.replace("</head>", f"{_STYLE}</head>", 1)


def _statistics(good: int, number: int) -> dict[str, float]:
    return {
        "evaluated_expectations": number,
        "successful_expectations": good,
        "unsuccessful_expectations": number - good,
        "success_percent": 100 * good / number if number else 100.0,
    }


def _index(pipeline: str, run_id: str, judged: Sequence[TableExpectations]) -> str:
    title = escape(f"{pipeline}, run {run_id}")
    lines = [
        f'<li><a href="{table.name}.html">{escape(table.name)}</a>: '
        f"{sum(one.passed for one in table.verdicts)} of {len(table.verdicts)} expectations met"
        for table in judged
    ]
    return (
        f'<!doctype html><meta charset="utf-8"><title>{title}</title>'
        f"<h1>{title}</h1>\n<ul>\n" + "\n".join(lines) + "\n</ul>\n"
    )
