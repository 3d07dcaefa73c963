"""Who is let in on loopback: whoever has the token, and asks this host."""

from __future__ import annotations

import hashlib

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.kit.running import Place
from tests.page.world import NOW, addresses
from tidemark.page.app import HEADERS
from tidemark.page.local import local_app

TOKEN, PORT = "a-token", 8_123
HOST = f"http://127.0.0.1:{PORT}"
# Of what is in the package, and comes from others.
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


@pytest.fixture
def app(place: Place) -> FastAPI:
    return local_app(lambda: place.settings, lambda: NOW, TOKEN, PORT)


def test_no_route_answers_without_the_token(app: FastAPI) -> None:
    asked = list(addresses(app.routes))
    assert len(asked) >= 7
    stranger = TestClient(app, HOST)
    guesser = TestClient(app, HOST, cookies={f"tidemark_{PORT}": "another"})
    known = TestClient(app, HOST, cookies={f"tidemark_{PORT}": TOKEN}, follow_redirects=False)
    for address in asked:
        assert stranger.get(address).status_code == 401, address
        assert (
            guesser.get(address + ("&" if "?" in address else "?") + "token=another").status_code
            == 401
        ), address
        assert known.get(address).status_code in (200, 303), address


def test_the_token_of_the_address_becomes_a_cookie_that_no_script_reads(app: FastAPI) -> None:
    client = TestClient(app, HOST, follow_redirects=False)
    answer = client.get(f"/p/clicks?token={TOKEN}&table=per_10m")
    assert (answer.status_code, answer.headers["location"]) == (303, "/p/clicks?table=per_10m")
    said = answer.headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert client.get("/p/clicks").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8123", f"127.0.0.1:{PORT + 1}"])
def test_a_name_of_somebody_else_that_leads_here_is_refused(app: FastAPI, host: str) -> None:
    """So that a page of theirs, which the browser takes for the same origin, cannot ask."""
    client = TestClient(app, HOST, cookies={f"tidemark_{PORT}": TOKEN})
    answer = client.get("/", headers={"host": host})
    assert (answer.status_code, answer.text) == (421, "This host is not known here.")
    again = client.get(f"/?token={TOKEN}", headers={"host": host})
    assert again.status_code == 421


def test_each_answer_says_what_the_browser_may_load(client: TestClient) -> None:
    for path in ("/", "/p/clicks", "/p/nobody", "/static/page.js", "/p/clicks/rejects.jsonl"):
        answer = client.get(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path


def test_nothing_but_scripts_and_styles_is_handed_out(client: TestClient) -> None:
    for name, digest in UPLOT.items():
        assert hashlib.sha256(client.get(f"/static/{name}").content).hexdigest() == digest
    for name in ("LICENSE", "..%2fapp.py", "%2e%2e%2fapp.py", "base.html", "../app.py"):
        assert client.get(f"/static/{name}").status_code == 404, name
