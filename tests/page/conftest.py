from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.kit.running import Place
from tests.page.world import Shown, app_for, make_world


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """What the tests look at, and leave as it is."""
    return make_world(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def client(place: Place) -> TestClient:
    return TestClient(app_for(place))


@pytest.fixture(scope="session")
def shown(client: TestClient) -> Shown:
    """The text of a page that is there."""

    def get(path: str) -> str:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    return get
