"""What stands on the pages, and that each link of them leads somewhere."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.kit.running import Place
from tests.page.world import EVIL, LONG, NOW, STORY, Shown, app_for, make_world
from tests.test_pages import why_not
from tidemark.cli.main import app as command
from tidemark.cli.status_report import print_status_overview
from tidemark.errors import StorageUnavailable
from tidemark.page import app as page_module
from tidemark.page import corrections
from tidemark.page.app import Access, page_app
from tidemark.runs.status.recorded_status import all_statuses
from tidemark.upkeep.maintenance.carry_out import drop_rejects

TEN = "2026-07-01T10:00:00Z"
PAGES = ("/", "/p/clicks", "/p/clicks/t/per_10m", "/p/clicks/rejects", f"/p/{LONG}", "/p/damaged",
         "/p/broken", "/p/new", "/p/new/t/per_10m", "/p/new/rejects", "/dag/clicks__backfill",
         "/dag/another")  # fmt: skip


class Read(HTMLParser):
    """The tags of a page, its links, and the text of its rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        assert not [name for name in found if name.startswith("on") or name == "style"], found
        link = found.get("href") or found.get("src")
        if link and "data-airflow" not in found and "data-story" not in found:
            self.links.append(link)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def data_of(text: str) -> Any:
    """What the charts of a page draw."""
    pattern = r'<script type="application/json" id="data">(.*?)</script>'
    (found,) = re.findall(pattern, text, re.DOTALL)
    return json.loads(found)


def test_the_overview_tells_what_the_command_tells_the_worst_first(
    shown: Shown, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    read = Read(shown("/"))
    statuses = {one.name: one for one in all_statuses(place.settings, NOW)}
    names = [one for one in re.findall(r"\S+", read.text) if one in statuses]
    assert list(dict.fromkeys(names))[:2] == ["damaged", "broken"]
    told = re.sub(r"\s", "", read.text)
    for one in statuses.values():
        assert one.state.value in read.text
        assert one.state.value == "well" or re.sub(r"[\s`]", "", one.next_step) in told
    print_status_overview([statuses["clicks"]], Path("x"), NOW)
    printed = capsys.readouterr().out
    assert " 24 (1.2%) " in printed
    assert "24 1.2%" in read.text


@pytest.mark.parametrize("path", PAGES)
def test_what_a_row_holds_is_text(shown: Shown, path: str) -> None:
    text = shown(path)
    read = Read(text)
    assert "alert('x')</script>" not in text
    assert read.tags.count("script") <= 3
    for tag in ("img", "iframe", "object", "base", "style"):
        assert tag not in read.tags


@pytest.mark.parametrize("path", [*PAGES, f"/p/clicks/t/per_10m/story{STORY}"])
def test_each_command_of_a_page_can_be_typed(shown: Shown, path: str) -> None:
    shown_ = re.findall(r"<code>tidemark ([^<]*)</code>", shown(path))
    wrong = {one: why for one in map(unescape, shown_) if (why := why_not(one))}
    assert wrong == {}
    assert shown_ or path in ("/p/clicks/rejects", "/p/new/rejects", "/dag/another")


def test_hostile_rows_come_whole(shown: Shown) -> None:
    assert EVIL in Read(shown("/p/clicks/rejects")).text
    assert EVIL in Read(shown("/p/clicks/t/per_10m")).text
    table = data_of(shown("/p/clicks/t/per_10m"))
    assert EVIL in [one["label"] for one in table["keys"]]
    assert EVIL in [
        name for name, _, _ in data_of(shown("/p/clicks/rejects"))["charts"]["rejected"]
    ]


def test_rejects_that_were_dropped_are_told(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    client, path = TestClient(app_for(place)), "/p/clicks/rejects"
    told = "Rejects of the batches up to 0 were dropped"
    assert told not in Read(client.get(path).text).text
    drop_rejects(place.warehouse.rejects, 0)
    assert told in Read(client.get(path).text).text


@pytest.mark.parametrize("prefix", ["", "/behind/a/proxy/tidemark"])
def test_each_link_leads_to_a_page_also_below_a_prefix(place: Place, prefix: str) -> None:
    outer = FastAPI(openapi_url=None)
    outer.mount(prefix, app_for(place))
    client, seen, to_come = TestClient(outer), set(), {f"{prefix}/", f"{prefix}/dag/clicks"}
    while to_come:
        path = to_come.pop()
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert answer.url.path.startswith(prefix), path
        if "text/html" not in answer.headers["content-type"]:
            continue
        for link in Read(answer.text).links:
            to = urlsplit(urljoin(str(answer.url), link))
            if to.netloc == "testserver" and not link.startswith("#"):
                address = to.path + (f"?{to.query}" if to.query else "")
                to_come |= {address} - seen
    paths = {one.partition("?")[0].removeprefix(prefix) for one in seen}
    assert {*PAGES[:8]} <= paths
    assert "/p/clicks/rejects.jsonl" in paths
    assert "/static/page.js" in paths


def test_a_pipeline_that_cannot_be_read_is_told_and_the_others_are_shown(shown: Shown) -> None:
    read = Read(shown("/p/damaged"))
    assert "The log of the table" in read.text
    assert "is damaged" in read.text
    assert "clicks" in Read(shown("/")).links[-1] or "p/clicks" in Read(shown("/")).links


@pytest.mark.parametrize("path", ["/", "/p/clicks", "/p/clicks/t/per_10m", "/p/clicks/rejects"])
def test_settings_that_cannot_be_used_are_told(place: Place, path: str) -> None:
    def away() -> Any:
        raise StorageUnavailable("the store is away")

    app = page_app(away, lambda: _Nobody(True), lambda: NOW)
    answer = TestClient(app).get(path)
    assert answer.status_code == 500
    assert "StorageUnavailable: the store is away" in Read(answer.text).text


def test_a_store_that_does_not_answer_is_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def slow() -> Any:
        over.wait(20)
        return place.settings

    monkeypatch.setattr(page_module, "_PATIENCE_SECONDS", 0.05)
    answer = TestClient(page_app(slow, lambda: _Nobody(True), lambda: NOW)).get("/")
    over.set()
    assert answer.status_code == 503
    assert "The store has not answered within" in answer.text


@pytest.mark.slow
@contextmanager
def _hangs_up() -> Iterator[tuple[int, list[object]]]:
    """The port of a server that hangs up on each caller, and its callers."""
    calls: list[object] = []

    class HangsUp(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            calls.append(self.client_address)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), HangsUp) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_address[1], calls
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.slow
def test_a_store_that_is_away_is_told_until_it_is_back(place: Place) -> None:
    with _hangs_up() as (port, calls):
        options = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "here",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        here = place.settings
        away = {"root": "s3://bucket/root", "pipelines": str(here.pipelines_folder)}
        now = [here.model_copy(update=away | {"storage_options": options})]
        client = TestClient(page_app(lambda: now[0], lambda: _Nobody(True), lambda: NOW))
        for path in ("/p/clicks", "/p/clicks/rejects"):
            answer = client.get(path)
            assert answer.status_code == 500, path
            assert "StorageUnavailable: The table s3://bucket/root/clicks" in answer.text, path
            assert "Load it again" in answer.text, path
        # The store is asked for one of them, however many there are.
        of_two = len(calls)
        overview = Read(client.get("/").text).text
        assert overview.count("StorageUnavailable: s3://bucket/root") == 5
        assert 0 < len(calls) - of_two < of_two
        now[0] = here
        for path in ("/", "/p/clicks", "/p/clicks/rejects"):
            assert client.get(path).status_code == 200, path


def test_a_root_that_is_away_leaves_pages_that_say_so(tmp_path: Path) -> None:
    place = make_world(tmp_path / "root")
    client = TestClient(app_for(place))
    assert "per_10m" in client.get("/p/clicks/t/per_10m").text
    (tmp_path / "elsewhere").mkdir()
    for name in ("clicks",):
        (place.root / name).rename(tmp_path / "elsewhere" / name)
    for path in ("/", "/p/clicks", "/p/clicks/t/per_10m", "/p/clicks/rejects"):
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
    assert "No run has made this table yet" in client.get("/p/clicks/t/per_10m").text
    for name in ("clicks",):
        (tmp_path / "elsewhere" / name).rename(place.root / name)
    assert "before" in client.get("/p/clicks/t/per_10m").text


class _Nobody(Access):
    """Sees one pipeline alone, or all."""

    def __init__(self, all_: bool = False, name: str = "new") -> None:
        self.all, self.name = all_, name

    def sees(self, pipeline: str, dag: str | None) -> bool:
        return self.all or pipeline == self.name

    def opens(self, dag: str) -> bool:
        return False


def test_what_somebody_may_not_see_is_as_what_is_not_there(place: Place) -> None:
    client = TestClient(app_for(place, _Nobody()))
    of_table = ("/p/{}/t/per_10m", "/p/{}/t/other", "/p/{}/t/per_10m/story")
    paths = ("/p/{}", *of_table, "/p/{}/rejects", "/p/{}/rejects.jsonl")
    assert "clicks" not in client.get("/").text
    assert "clicks" not in client.get("/dag/clicks").text.replace("Dag clicks", "")
    for path in paths:
        hidden, missing = (client.get(path.format(name)) for name in ("clicks", "nobody"))
        assert (hidden.status_code, missing.status_code) == (404, 404), path
        assert hidden.text.replace("clicks", "nobody") == missing.text, path
    assert client.get("/p/new").status_code == 200


def story(client: TestClient, **asked: str) -> Any:
    return client.get("/p/clicks/t/per_10m/story", params=asked)


def test_the_story_of_a_row_is_told_by_its_window_and_key(client: TestClient) -> None:
    told = story(client, window=TEN, key=json.dumps([EVIL]))
    read = Read(told.text)
    assert told.status_code == 200, told.text
    assert "Gold shows total 8, rows 3 : corrected, revision 1, by next." in read.text
    assert "tidemark explain clicks per_10m --window 2026-07-01T10:00:00Z --key" in read.text
    assert "alert('x')</script>" not in told.text
    assert read.tags.count("script") == 2


@pytest.mark.parametrize(
    ("window", "key", "status"),
    [
        (TEN, "[]", 400),
        (TEN, '{"key": "a"}', 400),
        (TEN, '[["a"]]', 400),
        (TEN, "[", 400),
        ("yesterday", '["a"]', 400),
        ("", '["a"]', 400),
        ("9999-12-31T23:59:59.999999Z", '["a"]', 400),
    ],
)
def test_what_names_no_row_is_refused_in_a_sentence(
    client: TestClient, window: str, key: str, status: int
) -> None:
    told = story(client, window=window, key=key)
    assert told.status_code == status
    assert "No row can be told by that" in told.text


def test_a_table_that_cannot_be_read_is_no_fault_of_the_request(tmp_path: Path) -> None:
    """Also where that is a ValueError, as errors of Arrow are."""
    place = make_world(tmp_path)
    for file in Path(place.warehouse.ledger.uri).glob("*.parquet"):
        file.write_bytes(b"no longer what it was")
    told = story(TestClient(app_for(place)), window=TEN, key=json.dumps([EVIL]))
    assert told.status_code == 500
    assert "ArrowInvalid: " in told.text
    asked = ["explain", "clicks", "per_10m", "--window", TEN, "--key", f"key={EVIL}"]
    typed = CliRunner().invoke(command, asked, env=place.variables)
    assert (typed.exit_code, typed.output.partition(":")[0]) == (1, "DataDamaged")


def test_where_not_all_corrected_windows_are_shown_it_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "MOST", 1)
    monkeypatch.setattr(page_module, "MOST_CORRECTIONS", 1)
    client = TestClient(app_for(place))
    assert "the newest 1 alone are marked" in client.get("/p/clicks").text
    assert "older ones are left out" in client.get("/p/clicks/t/per_10m").text


def test_a_download_has_each_reject_with_its_id_and_its_place(client: TestClient) -> None:
    lines = [json.loads(one) for one in client.get("/p/clicks/rejects.jsonl").text.splitlines()]
    assert [one["id"] for one in lines] == ["1-3", "0-1", "0-2"]
    assert lines[0]["raw"] == EVIL
    assert lines[0]["place"] == {"file": "landing/a.json", "place": 3}
    one = client.get("/p/clicks/rejects.jsonl", params={"reason": "malformed"})
    assert [json.loads(line)["id"] for line in one.text.splitlines()] == ["0-1", "0-2"]
    assert "attachment" in one.headers["content-disposition"]
