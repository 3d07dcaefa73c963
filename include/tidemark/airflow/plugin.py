"""The page in Airflow: an entry in its navigation, and a tab on each Dag.

All of Airflow's processes load plugins, and only its API server needs the page.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from tidemark.pipeline.settings.settings import load_settings

PREFIX = "tidemark"
_ICONS = {"icon": f"{PREFIX}/static/icon.svg", "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg"}


class TidemarkPlugin(AirflowPlugin):
    """The pipelines of the settings that the API server finds, as `tidemark` would there."""

    name = "tidemark"
    external_views: list[Any] = [  # noqa: RUF012  as Airflow declares it
        {
            "name": "Streams",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "streams",
            **_ICONS,
        },
        {
            "name": "Stream",
            "href": f"{PREFIX}/dag/{{DAG_ID}}",
            "destination": "dag",
            "url_route": "stream",
            **_ICONS,
        },
    ]

    @property
    def fastapi_apps(self) -> list[Any]:  # type: ignore[override]
        from tidemark.airflow.page_access import dag_access, get_user
        from tidemark.page.app import page_app

        app = page_app(
            load_settings,
            dag_access,
            lambda: datetime.now(UTC),
            login="plugin/streams",
            door=get_user,
        )
        return [{"app": app, "url_prefix": f"/{PREFIX}", "name": "Tidemark"}]
