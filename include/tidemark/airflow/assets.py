"""Gold tables as Assets, and what their events say: which windows a run changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context

from tidemark.gold.pins import Published
from tidemark.pipeline.instants import instant_of
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.settings import load_settings
from tidemark.pipeline.settings.storage_options import is_local


def gold_asset(
    pipeline: str,
    table: str,
    settings: str | Path | None = None,
    root: str | Path | None = None,
) -> Asset:
    """The Asset of a gold table, for a Dag that is to follow it: `schedule=[gold_asset(…)]`.

    `settings` and `root` as in `pipeline_dags`: the Asset's URI begins with the root. Raises
    SettingsInvalid. Not `Asset.ref`: Airflow 3.3
    starts a Dag that is scheduled by a reference, and gives it no events.
    """
    used = load_settings(settings, root=root)
    return asset_of(table, Places(used.root, pipeline))


def asset_of(table: str, places: Places) -> Asset:
    """`tidemark/PIPELINE/TABLE`, at gold's place."""
    place = places.gold(table)
    uri = Path(place).as_uri() if is_local(place) else place
    return Asset(name=f"tidemark/{places.pipeline}/{table}", uri=uri)


def tell_changed(
    task: BaseOperator, context: Context, run_id: str, changed: Mapping[str, Published | None]
) -> None:
    """Leave a task, of whose outlets gold tables are, those that its run changed, each with its
    event's extra: Airflow makes an event for each outlet that is left when the task has succeeded.

    The extra: `run`, `windows` (how many changed, at least 1), and their range as ISO 8601 in UTC:
    `window_start`, the earliest start, and `window_end`, the latest end.
    """
    left = []
    for asset in task.outlets:
        if found := changed.get(asset.name.rpartition("/")[2]):
            context["outlet_events"][asset].extra = _extra(run_id, found)
            left.append(asset)
    task.outlets = left


def _extra(run_id: str, published: Published) -> dict[str, Any]:
    return {
        "run": run_id,
        "windows": published.windows,
        "window_start": instant_of(published.start_ms).isoformat(),
        "window_end": instant_of(published.end_ms).isoformat(),
    }
