"""The page in a real API server of two workers, behind a path, for people of two teams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from demo.environment import USER, airflow_environment, prepare_home
from demo.runs import wait_until
from demo.services import Services
from tests.page.world import addresses, app_for, make_world

pytestmark = pytest.mark.slow

PREFIX = "/behind/a/proxy"
PAGE = f"{PREFIX}/tidemark"
READER, PASSWORD = "reader", "of-the-tests"
# As the Dag processor would: `clicks` belongs to a team that the reader is not in.
DAGS = """\
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team
from airflow.utils.session import create_session

with create_session() as session:
    session.add(Team(name="theirs"))
    session.add(Team(name="ours"))
    session.flush()
    for dag, team in (("clicks", "theirs"), ("new", "ours")):
        bundle = DagBundleModel(name=f"of_{team}")
        bundle.teams.append(session.get(Team, team))
        session.add(bundle)
        session.flush()
        session.add(DagModel(dag_id=dag, bundle_name=bundle.name, is_stale=False, fileloc=""))
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where Airflow is served, with its path, once it answers."""
    folder = tmp_path_factory.mktemp("served")
    place, home = make_world(folder / "root"), prepare_home(folder / "airflow")
    served = f"{home.address}{PREFIX}"
    passwords = {USER: PASSWORD, READER: PASSWORD}
    (home.folder / "passwords.json").write_text(json.dumps(passwords))
    base = {name: of for name, of in os.environ.items() if not name.startswith("TIDEMARK_")}
    environment = {
        **airflow_environment({**base, **place.variables}, replace(home, password=PASSWORD)),
        "AIRFLOW__API__BASE_URL": served,
        "AIRFLOW__API__WORKERS": "2",
        "AIRFLOW__CORE__MULTI_TEAM": "True",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{READER}:viewer:ours",
    }
    logs = home.folder / "services"
    logs.mkdir()
    services = Services(environment, logs)
    services.migrate()
    subprocess.run([sys.executable, "-c", DAGS], env=environment, check=True)
    try:
        services.start(["api-server"])

        def is_up() -> bool:
            try:
                return httpx.get(f"{served}/api/v2/version", trust_env=False).is_success
            except httpx.HTTPError:
                return False

        def advances() -> dict[Path, int]:
            return {log: log.stat().st_size for log in logs.iterdir()}

        wait_until(is_up, advances, "An API server that answers")
        yield served
    finally:
        services.stop()


def as_user(address: str, name: str | None) -> httpx.Client:
    """Somebody who has logged in; None: who has not."""
    headers = {}
    if name is not None:
        login = {"username": name, "password": PASSWORD}
        answer = httpx.post(f"{address}/auth/token", json=login, trust_env=False, timeout=120)
        headers = {"Authorization": f"Bearer {answer.raise_for_status().json()['access_token']}"}
    host = address.removesuffix(PREFIX)
    return httpx.Client(base_url=host, headers=headers, trust_env=False, timeout=120)


class _Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, bool] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if link := given.get("href") or given.get("src"):
            self.found[link] = "data-airflow" in given


def test_nobody_is_let_in_without_a_login(address: str, tmp_path: Path) -> None:
    routes = app_for(make_world(tmp_path / "root")).routes
    with as_user(address, None) as client:
        for path in addresses(routes):
            answer = client.get(f"{PAGE}{path}")
            assert answer.status_code == 401, path
            assert "clicks" not in answer.text, path
        links = _Links(client.get(f"{PAGE}/p/clicks").text).found
        # There Airflow leads people to its login, and back.
        assert f"{PREFIX}/plugin/streams" in {urljoin(f"{PAGE}/p/clicks", one) for one in links}


def test_whoever_may_not_see_a_dag_is_told_nothing_of_it(address: str) -> None:
    with as_user(address, READER) as client:
        found = client.get(f"{PAGE}/")
        assert found.status_code == 200
        assert ("clicks" in found.text, "new" in found.text) == (False, True)
        story = "t/per_10m/story?window=2026-07-01T10:20:00Z&key=%5B%22a%22%5D"
        for path in ("", "/t/per_10m", f"/{story}", "/rejects", "/rejects.jsonl"):
            assert client.get(f"{PAGE}/p/clicks{path}").status_code == 404, path
        assert client.get(f"{PAGE}/p/new").status_code == 200
        # No Dag is known of it.
        assert client.get(f"{PAGE}/p/damaged").status_code == 404
        assert client.get(f"{PREFIX}/api/v2/dags/clicks").status_code == 403
    with as_user(address, USER) as client:
        assert "clicks" in client.get(f"{PAGE}/").text
        assert client.get(f"{PAGE}/p/clicks/{story}").status_code == 200
        assert client.get(f"{PAGE}/p/damaged").status_code == 200


def test_links_work_behind_a_path_and_lead_to_airflow(address: str) -> None:
    seen, to_come, of_airflow = set[str](), {f"{PAGE}/"}, set[str]()
    with as_user(address, USER) as client:
        while to_come:
            path = to_come.pop()
            seen.add(path)
            answer = client.get(path)
            assert answer.status_code == 200, path
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            for link, leaves in _Links(answer.text).found.items():
                to = urljoin(path, link).partition("#")[0]
                (of_airflow if leaves else to_come).add(to)
            to_come = {one for one in to_come - seen if not one.startswith("http")}
        assert f"{PREFIX}/dags/clicks" in of_airflow
        assert all(one.startswith(f"{PREFIX}/dags/") for one in of_airflow)
        for one in of_airflow:
            assert client.get(one).status_code == 200, one
    assert f"{PAGE}/p/clicks/t/per_10m" in seen
    assert all(one.startswith(f"{PAGE}/") for one in seen)
