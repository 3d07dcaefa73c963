"""`tidemark rejects`: what was rejected, by reason, one by one, and as lines of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from tests.kit.running import Place
from tests.kit.windows import at
from tests.page.world import accepted, rejected
from tidemark.cli.main import app
from tidemark.errors import RETRY, RunFailed
from tidemark.page import rejects
from tidemark.upkeep.maintenance.carry_out import drop_rejects


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write_file()
    accepted(place, 0, (at(10), "a", 1))
    rejected(place, 0, ("malformed", "{oops", 3), ("future", "{}", 9))
    rejected(place, 1, ("malformed", "no", 4))
    return place


def asked(place: Place, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["rejects", *arguments], env=place.variables)


def test_the_reasons_are_listed_with_their_numbers_and_the_newest_rejects(place: Place) -> None:
    shown = asked(place, "list", place.name).stdout
    malformed, future, *rows = [one for one in shown.splitlines() if "20" in one or "=" in one]
    assert malformed.split()[:2] == ["malformed", "2"]
    assert future.split()[:2] == ["future", "1"]
    assert sorted(row.split()[0] for row in rows) == ["0-3", "0-9", "1-4"]
    assert rows[0].split()[0] == "1-4"
    assert "file=landing/a.json, place=4" in rows[0]
    (document,) = json.loads(
        asked(place, "list", place.name, "--reason", "future", "--json").stdout
    )
    assert document["reasons"] == [
        {"reason": "malformed", "rejects": 2},
        {"reason": "future", "rejects": 1},
    ]
    assert [one["id"] for one in document["newest"]] == ["0-9"]


def test_one_is_shown_with_its_place_and_its_text(place: Place) -> None:
    shown = asked(place, "show", place.name, "0-3").stdout
    assert "found {oops" in shown
    assert "file=landing/a.json, place=3" in shown
    assert shown.splitlines()[-1] == "{oops"
    unknown = asked(place, "show", place.name, "7-7")
    assert unknown.exit_code == 2
    assert "has the id 7-7" in " ".join(unknown.stderr.split())


def test_all_are_exported_as_lines_with_their_ids_and_no_file_is_written_over(
    place: Place, tmp_path: Path
) -> None:
    lines = asked(place, "export", place.name).stdout.splitlines()
    found = {one["id"]: (one["reason"], one["raw"], one["place"]) for one in map(json.loads, lines)}
    assert found == {
        "0-3": ("malformed", "{oops", {"file": "landing/a.json", "place": 3}),
        "0-9": ("future", "{}", {"file": "landing/a.json", "place": 9}),
        "1-4": ("malformed", "no", {"file": "landing/a.json", "place": 4}),
    }
    out = tmp_path / "rejects.jsonl"
    written = asked(place, "export", place.name, "--reason", "malformed", "--out", str(out))
    assert written.stdout.startswith("2 rejects written to ")
    before = out.read_text("utf-8")
    assert {json.loads(one)["id"] for one in before.splitlines()} == {"0-3", "1-4"}
    again = asked(place, "export", place.name, "--out", str(out))
    assert again.exit_code == 2
    assert out.read_text("utf-8") == before


def test_an_export_that_is_cut_off_leaves_no_file_that_looks_whole(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = rejects.newest_rejects

    def cut_off(table: DeltaTable, reason: str | None) -> Iterator[rejects.Reject]:
        yield next(read(table, reason))
        assert [one.suffix for one in folder.iterdir()] == [".part"]
        raise RunFailed("stopped")

    folder = tmp_path / "exported"
    folder.mkdir()
    out = folder / "rejects.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(rejects, "newest_rejects", cut_off)
        assert asked(place, "export", place.name, "--out", str(out)).exit_code == RETRY
    assert [*folder.iterdir()] == []
    assert asked(place, "export", place.name, "--out", str(out)).exit_code == 0
    assert [*folder.iterdir()] == [out]
    assert len(out.read_text("utf-8").splitlines()) == 3


def test_an_export_replaces_no_file_that_has_come_meanwhile(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, out = rejects.newest_rejects, tmp_path / "rejects.jsonl"

    def another(table: DeltaTable, reason: str | None) -> Iterator[rejects.Reject]:
        out.write_text("another")
        yield from read(table, reason)

    monkeypatch.setattr(rejects, "newest_rejects", another)
    assert asked(place, "export", place.name, "--out", str(out)).exit_code == 2
    assert out.read_text() == "another"
    assert not [*tmp_path.glob("*.part")]


@pytest.mark.parametrize("out", ["none/rejects.jsonl", "a" * 300])
def test_a_file_that_cannot_be_written_is_told_in_a_sentence(
    place: Place, tmp_path: Path, out: str
) -> None:
    refused = asked(place, "export", place.name, "--out", str(tmp_path / out))
    assert refused.exit_code == 2
    assert "cannot be written" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_id_that_is_no_text_is_that_of_no_reject(place: Place) -> None:
    """As an argument comes whose bytes are no UTF-8."""
    unknown = asked(place, "show", place.name, "\udcff")
    assert unknown.exit_code == 2
    assert "has the id" in unknown.stderr


@pytest.mark.parametrize("command", [("rejects", "list"), ("ledger", "show")])
def test_no_more_lines_can_be_asked_for_than_can_be_counted(
    place: Place, command: tuple[str, str]
) -> None:
    asked_for = [*command, place.name, "--last", "99999999999999999999"]
    refused = CliRunner().invoke(app, asked_for, env=place.variables)
    assert refused.exit_code == 2
    assert "less than or equal to 1000000000" in refused.stderr


@pytest.mark.parametrize("command", ["list", "export"])
def test_a_reason_that_no_reject_has_is_refused_with_those_that_there_are(
    place: Place, command: str
) -> None:
    refused = asked(place, command, place.name, "--reason", "jump")
    assert refused.exit_code == 2
    assert "There are: malformed, future." in " ".join(refused.stderr.replace("│", "").split())


def test_before_the_first_run_there_are_none_to_list(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write_file()
    early = asked(place, "list", place.name)
    assert early.exit_code == 1
    assert "has not run yet" in early.stderr


def test_those_that_were_dropped_are_told_wherever_rejects_are(
    place: Place, tmp_path: Path
) -> None:
    (document,) = json.loads(asked(place, "list", place.name, "--json").stdout)
    assert document["dropped_to"] is None
    drop_rejects(place.warehouse.rejects, 0)
    told = "Rejects of the batches up to 0 were dropped (`keep_rejects`)."
    shown = asked(place, "list", place.name).stdout
    assert told in shown
    assert "1-4" in shown
    assert "0-3" not in shown
    (document,) = json.loads(asked(place, "list", place.name, "--json").stdout)
    assert document["dropped_to"] == 0
    out = str(tmp_path / "rejects.jsonl")
    assert told in asked(place, "export", place.name, "--out", out).stdout
    for arguments in (("show", place.name, "0-3"), ("list", place.name, "--reason", "future")):
        refused = asked(place, *arguments)
        assert refused.exit_code == 2
        assert told in " ".join(refused.stderr.replace("│", "").split())
    drop_rejects(place.warehouse.rejects, 1)
    shown = asked(place, "list", place.name).stdout
    assert shown.strip() == told.replace("up to 0", "up to 1")
