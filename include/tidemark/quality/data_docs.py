"""Data Docs: static pages of what expectations said, a folder for each run.

Great Expectations says in words and tables what was expected and seen; the page around them is
ours. A page loads nothing and runs nothing, and what comes from rows, pipeline files and run ids
is text in it, never HTML.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import quote

from tidemark.commit_point import commit_point
from tidemark.pipeline.expectations import FOR_PEOPLE
from tidemark.quality.expectations import TableExpectations, Told
from tidemark.storage.file_place import FilePlace
from tidemark.storage.files import write_bytes
from tidemark.storage.warehouse import Warehouse

# Names and examples come from outside. Should one ever become markup, the browser runs nothing and
# fetches nothing.
_HEAD = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font-family: sans-serif; margin: 1rem; }
table { border-collapse: collapse; margin-bottom: 1rem; }
td, th { border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }
.badge { background: #eee; border-radius: .2rem; padding: 0 .25rem; white-space: pre-wrap; }
.text-success { color: #080; } i.text-success::before { content: "\\2713"; }
.text-danger { color: #b00; } i.text-danger::before { content: "\\2717"; }
i.text-warning::before { content: "!"; }
</style>
"""
_PAGE = (
    _HEAD
    + """\
<title>{{ page_title }}</title>
<p><a href="index.html">All tables of this run</a></p>
<ul>{% for line in verdicts %}<li>{{ line }}</li>{% endfor %}</ul>
{% for section in sections %}{% set section_loop = loop %}{% include "section.j2" %}{% endfor %}
"""
)
# Those of Great Expectations need scripts, or take what a person wrote for Markdown. A chart's
# values stand in a table beside it.
_TEMPLATES = {
    "collapse.j2": """\
<details><summary>{{ content_block["collapse_toggle_link"] | render_content_block }}</summary>
{% for block in content_block["collapse"] %}{{ block | render_content_block }}{% endfor %}
</details>
""",
    "graph.j2": "",
    "bootstrap_table.j2": "",
    "markdown.j2": "<pre>{{ content_block['markdown'] }}</pre>",
}
# The one string among what it renders that is HTML: an icon of its own.
_ICON = "html_success_icon"
_MARKUP = re.compile("[&<>\"']")


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
        write_bytes(f"{folder}/{_file(table.name)}", page.encode(), options)
    index = f"{folder}/index.html"
    write_bytes(index, _index(places.pipeline, run_id, judged).encode(), options)
    _prune(warehouse.file_at(places.data_docs), keep)
    return index


def _file(table: str) -> str:
    # A table may be named `index`.
    return f"table-{table}.html"


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
    # It would report to its makers what was run.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    from great_expectations import __version__
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView
    from jinja2 import ChoiceLoader, DictLoader

    good, number = sum(one.passed for one in table.told), len(table.told)
    meta = {
        "run_id": {"run_name": run_id, "run_time": time.isoformat()},
        "active_batch_definition": {"datasource_name": pipeline, "data_asset_name": table.name},
        # Where its page looks for the table's name.
        "batch_kwargs": {"data_asset_name": table.name},
        "batch_markers": {},
        "validation_time": time.isoformat(),
        "great_expectations_version": __version__,
    }
    whole = ExpectationSuiteValidationResult(
        success=good == number,
        results=[_result(one) for one in table.told],
        suite_name=f"{pipeline} {table.name}",
        statistics={
            "evaluated_expectations": number,
            "successful_expectations": good,
            "unsuccessful_expectations": number - good,
            "success_percent": 100 * good / number if number else 100.0,
        },
        suite_parameters={},
        meta=meta,
    )
    renderer: Any = ValidationResultsPageRenderer(run_info_at_end=True)
    view: Any = DefaultJinjaPageView()
    view.env.loader = ChoiceLoader([DictLoader(_TEMPLATES), view.env.loader])
    # Its templates escape some values and pass others as they are. So none has a character of
    # HTML while they work: each stands as a word that nobody can have written.
    word = secrets.token_hex(8)
    lines = [f"{one.check}: {one.observed}" for one in table.verdicts]
    document = _without_markup({**renderer.render(whole).to_json_dict(), "verdicts": lines}, word)
    page = str(view.env.from_string(_PAGE).render(document))
    return re.sub(rf"{word}x(\d+)x", r"&#\1;", page)


def _result(verdict: Told) -> Any:
    """What was told, as a result of Great Expectations, whose words are made of those."""
    import great_expectations.expectations as gxe
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    asked = {name: one for name, one in verdict.arguments.items() if name not in FOR_PEOPLE}
    return ExpectationValidationResult(
        success=verdict.passed,
        expectation_config=ExpectationConfiguration(
            type=getattr(gxe, verdict.name).expectation_type,
            kwargs=asked,
            description=verdict.arguments.get("description"),
        ),
        result=dict(verdict.found),
        exception_info={
            "raised_exception": False,
            "exception_traceback": None,
            "exception_message": None,
        },
    )


def _without_markup(value: Any, word: str) -> Any:
    """A value with `word` and a number for each character of HTML, and without a link: those
    lead to pages of a site that is not made."""
    if isinstance(value, str):
        return _MARKUP.sub(lambda found: f"{word}x{ord(found[0])}x", value)
    if isinstance(value, list):
        return [_without_markup(one, word) for one in value]
    if isinstance(value, dict):
        return {
            _without_markup(name, word): one if name == _ICON else _without_markup(one, word)
            for name, one in value.items()
            if name != "href"
        }
    return value


def _index(pipeline: str, run_id: str, judged: Sequence[TableExpectations]) -> str:
    title = escape(f"{pipeline}, run {run_id}")
    lines = [
        f'<li><a href="{quote(_file(table.name))}">{escape(table.name)}</a>: '
        f"{sum(one.passed for one in table.verdicts)} of {len(table.verdicts)} expectations met"
        for table in judged
    ]
    return (
        f"{_HEAD}<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n" + "\n".join(lines) + "\n</ul>\n"
    )
