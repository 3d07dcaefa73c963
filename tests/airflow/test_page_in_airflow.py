"""The page in Airflow: each route asks for its login, and shows what somebody's Dags are."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.kit.running import Place
from tests.page.world import STORY, addresses, make_world
from tests.runs.pipelines import BEGAN, ended
from tidemark.airflow.page_access import DagAccess, dag_access
from tidemark.airflow.plugin import TidemarkPlugin
from tidemark.page.app import HEADERS

ALL = frozenset({"clicks", "clicks__backfill", "clicks__rewind", "new", "etl"})


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    place: Place = make_world(tmp_path / "root")
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TIDEMARK_SETTINGS", raising=False)
    (mounted,) = TidemarkPlugin().fastapi_apps
    assert mounted["url_prefix"] == "/tidemark"
    found: FastAPI = mounted["app"]
    return found


def test_no_route_answers_without_airflows_login(app: FastAPI) -> None:
    asked = list(addresses(app.routes))
    assert len(asked) == len(app.routes) >= 7
    assert all(isinstance(route, Route) for route in app.routes)
    client = TestClient(app)
    for address in asked:
        answer = client.get(address)
        assert answer.status_code == 401, address
        assert "../plugin/streams" in answer.text
        assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_the_entry_and_the_tab_lead_to_routes_of_the_page(app: FastAPI) -> None:
    views = {one["destination"]: one for one in TidemarkPlugin.external_views}
    assert views.keys() == {"nav", "dag"}
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    for one in views.values():
        assert one["href"].startswith("tidemark/")
        assert one["href"].removeprefix("tidemark").replace("{DAG_ID}", "{dag}") in paths
        for icon in ("icon", "icon_dark_mode"):
            assert one[icon].startswith("tidemark/static/")


def as_somebody(app: FastAPI, *readable: str) -> TestClient:
    """Somebody who may read these Dags."""
    from tidemark.airflow.page_access import get_user

    app.dependency_overrides = {
        get_user: lambda: "somebody",
        dag_access: lambda: DagAccess(ALL, frozenset(readable)),
    }
    return TestClient(app, follow_redirects=False)


def test_whoever_may_not_read_a_dag_sees_nothing_of_its_pipeline(app: FastAPI) -> None:
    client = as_somebody(app, "new")
    assert "clicks" not in client.get("/").text
    for path in ("", "/t/per_10m", "/rejects", "/rejects.jsonl"):
        assert client.get(f"/p/clicks{path}").status_code == 404, path
        assert client.get(f"/p/new{path}").status_code == 200, path
    assert client.get(f"/p/clicks/t/per_10m/story{STORY}").status_code == 404
    assert client.get("/dag/clicks").status_code == 200
    assert client.get("/dag/new").headers["location"] == "../p/new"


def test_runs_lead_to_airflow_and_what_can_be_done_to_its_dag(app: FastAPI, tmp_path: Path) -> None:
    run, place = "scheduled__2026-07-01T12:30:00+00:00", Place(tmp_path / "root")
    ended(place, run, BEGAN + timedelta(minutes=20), dag="clicks")
    ended(place, "of a group", BEGAN + timedelta(minutes=15), dag="etl")
    ended(place, "of another's", BEGAN + timedelta(minutes=16), dag="secret")
    text = as_somebody(app, "clicks", "clicks__backfill", "etl").get("/p/clicks").text
    links = re.findall(r'href="\.\./\.\./dags/([^"]*)" data-airflow', text)
    of_run = "clicks/runs/scheduled__2026-07-01T12%3A30%3A00%2B00%3A00"
    # The runs of the command, and those of a Dag that they may not read, have none.
    assert links == [
        *("clicks", of_run, f"{of_run}/tasks/stream", "etl/runs/of%20a%20group"),
        *("clicks", "clicks__backfill"),
    ]
    for command in ("run", "backfill", "rewind", "migrate", "accept"):
        assert f"tidemark {command} clicks" in text


@pytest.mark.parametrize(
    ("run", "dag", "link"),
    [
        ("etl.clicks__scheduled__1", "etl", "etl/runs/scheduled__1"),
        ("etl.my__group.clicks__manual__1", "etl", "etl/runs/manual__1"),
        ("clicks.clicks__manual__1", "clicks", "clicks/runs/manual__1"),
        # What Airflow calls these is not known for sure, or not at all.
        ("etl.clicks__by_hand", "etl", "etl"),
        ("rewind__20260701T124000Z", "clicks__rewind", "clicks__rewind"),
    ],
)
def test_a_run_of_a_group_or_of_a_rewind_leads_to_what_airflow_has(
    app: FastAPI, tmp_path: Path, run: str, dag: str, link: str
) -> None:
    ended(Place(tmp_path / "root"), run, BEGAN + timedelta(minutes=20), dag=dag)
    text = as_somebody(app, *ALL).get("/p/clicks").text
    assert re.findall(rf'href="\.\./\.\./dags/([^"]*)" data-airflow>{run}<', text) == [link]
    assert "/tasks/stream" not in text


def test_the_backfills_dag_belongs_to_its_pipeline(app: FastAPI) -> None:
    """And lets nobody see it."""
    client = as_somebody(app, "clicks__backfill")
    assert client.get("/p/clicks").status_code == 404
    assert client.get("/dag/clicks__backfill").status_code == 200
    client = as_somebody(app, "clicks")
    assert client.get("/dag/clicks__backfill").headers["location"] == "../p/clicks"


@pytest.mark.parametrize("dag", ["clicks", "etl"])
def test_behind_a_rewind_by_its_dag_those_see_a_pipeline_who_saw_it_before(
    app: FastAPI, tmp_path: Path, dag: str
) -> None:
    place = Place(tmp_path / "root")
    ended(place, "run", BEGAN + timedelta(minutes=20), dag=dag)
    again = BEGAN + timedelta(minutes=40)
    ended(place, "rewind__20260701T124000Z", again, trigger="rewind", dag="clicks__rewind")
    for readable, status in ((dag, 200), ("clicks__rewind", 404)):
        client = as_somebody(app, readable)
        assert client.get("/p/clicks").status_code == status
        assert client.get("/p/clicks/rejects.jsonl").status_code == status
        assert ("p/clicks" in client.get("/").text) == (status == 200)
    text = as_somebody(app, *ALL).get("/p/clicks").text
    assert f'href="../../dags/{dag}" data-airflow>Dag<' in text


def test_a_pipeline_whose_dag_is_not_known_is_for_those_who_may_read_every_dag(
    app: FastAPI,
) -> None:
    assert as_somebody(app, *ALL).get("/p/damaged").status_code == 200
    assert as_somebody(app, *(ALL - {"etl"})).get("/p/damaged").status_code == 404


@pytest.mark.parametrize(
    ("dag", "readable", "sees"),
    [
        ("etl", {"etl"}, True),
        ("etl", {"clicks"}, False),
        (None, {"clicks"}, True),
        ("gone", {"clicks", "etl"}, False),
        ("gone", ALL, True),
    ],
)
def test_the_dag_that_a_run_noted_counts_and_not_one_of_the_same_name(
    dag: str | None, readable: set[str], sees: bool
) -> None:
    assert DagAccess(ALL, frozenset(readable)).sees("clicks", dag) is sees
