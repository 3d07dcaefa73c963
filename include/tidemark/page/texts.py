"""How the templates write times, numbers and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2.filters import do_filesizeformat
from markupsafe import Markup

from tidemark.page.series import key_json, key_text
from tidemark.pipeline.durations import span_text
from tidemark.pipeline.names import DAG_SUFFIXES
from tidemark.recompute.differences import plain
from tidemark.runs.status.lag_text import lag_text
from tidemark.story.story import measures_of

_NONE = "–"
# Airflow's id of a run behind a group's: what started it comes first.
_OF_GROUP = re.compile(
    "__((?:scheduled|manual|backfill|operator_triggered|asset_triggered|asset_materialization)__.+)"
)


def _time(instant: datetime | None) -> Markup:
    """UTC; a script puts the reader's own time beside it."""
    if instant is None:
        return Markup(_NONE)
    utc = instant.astimezone(UTC)
    text = f"{utc:%Y-%m-%d %H:%M}" + (f":{utc:%S}" if utc.second else "")
    return Markup('<time datetime="{}">{}</time>').format(f"{utc:%Y-%m-%dT%H:%M:%SZ}", text)


def _until(end: datetime, start: datetime) -> Markup:
    """The end of what began at a time: of the same day without the date."""
    text = _time(end)
    same = end.astimezone(UTC).date() == start.astimezone(UTC).date()
    return Markup(text.replace(f"{end.astimezone(UTC):%Y-%m-%d }", "")) if same else text


def _ticked(text: str) -> Markup:
    """What stands between backticks is typed."""
    parts, typed = re.split("`([^`]*)`", text), Markup("<code>{}</code>")
    return Markup("").join(typed.format(one) if at % 2 else one for at, one in enumerate(parts))


def _number(value: Any) -> str:
    if value is None:
        return _NONE
    whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if whole else _value(value)


def _value(value: Any) -> str:
    """Any value of a row, as text."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:,.10g}" if isinstance(value, float) else str(plain(value))


def _values(values: Mapping[str, Any] | None) -> str:
    return "no row" if values is None else ", ".join(f"{k} {_number(v)}" for k, v in values.items())


def _share(part: int, whole: int) -> str:
    """In per cent; never 0 of something."""
    if not part or not whole:
        return ""
    return "<0.1%" if part / whole < 0.001 else f"{part / whole:.1%}"


def _cut(text: str | None, most: int = 2_000) -> str:
    if text is None:
        return _NONE
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _airflows_run(run: str, dag: str) -> str | None:
    """What Airflow calls a run of a Dag, which that of a group has behind those of Dag and group;
    None where that is not known: of a rewind, whose id is the act's, and of a group's run whose id
    Airflow did not make."""
    if dag.endswith(tuple(DAG_SUFFIXES)):
        return None
    if not run.startswith(f"{dag}."):
        return run
    found = _OF_GROUP.search(run, len(dag))
    return found[1] if found else None


FILTERS = {
    "airflows_run": _airflows_run,
    "until": _until,
    "ticked": _ticked,
    "time": _time,
    "number": _number,
    "value": _value,
    "values": _values,
    "measures": measures_of,
    "bytes": lambda size: _NONE if size is None else do_filesizeformat(size, binary=True),
    "share": _share,
    "cut": _cut,
    "span": span_text,
    "lag": lag_text,
    "quoted": lambda text: json.dumps(text, ensure_ascii=False),
    "key": key_text,
    "key_json": key_json,
}
