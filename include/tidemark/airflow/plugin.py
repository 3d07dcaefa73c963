"""The page in Airflow: an entry in its navigation, and a tab on each Dag.

All of Airflow's processes load plugins, and only its API server needs the page.
"""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

PREFIX = "tidemark"
_ICONS = {"icon": f"{PREFIX}/static/icon.svg", "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg"}


class TidemarkPlugin(AirflowPlugin):
    """The pipelines of the settings that the API server finds, as `tidemark` would there."""

    name = "tidemark"
    external_views: ClassVar[list[Any]] = [
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
        from tidemark.airflow.page_app import airflow_page

        return [{"app": airflow_page(), "url_prefix": f"/{PREFIX}", "name": "Tidemark"}]
