"""Downloads of rejected rows: all of them, once, and where they end it is said."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from tests.kit.running import Place
from tests.page.world import rejected
from tidemark.ledger.report import rejected_rows
from tidemark.page import rejects
from tidemark.page.rejects import keys_in, newest_rejects, reject_lines
from tidemark.pipeline.load import find_pipeline


@pytest.fixture
def many(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("rejects"))
    for batch in range(12):
        reason = "malformed" if batch % 2 else "future"
        rejected(place, batch, *((reason, f"{batch}", number) for number in range(3)))
    place.warehouse.rejects.existing().optimize.compact()
    for batch in (*range(12, 20), 5):
        rejected(place, batch, ("malformed", f"{batch}", 9))
    return place


def test_each_comes_once_and_about_the_newest_first(many: Place) -> None:
    found = [one.id for one in newest_rejects(many.warehouse.rejects.existing(), None)]
    expected = {f"{batch}-{number}" for batch in range(12) for number in range(3)}
    assert sorted(found) == sorted(expected | {f"{batch}-9" for batch in (*range(12, 20), 5)})
    assert {*found[:7]} == {f"{batch}-9" for batch in range(13, 20)}
    first = list(islice(newest_rejects(many.warehouse.rejects.existing(), "future"), 2))
    assert {one.reason for one in first} == {"future"}


@pytest.mark.parametrize("bound", ["MOST_ROWS", "MOST_BYTES"])
def test_a_file_that_is_cut_says_so_last(
    many: Place, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejects, bound, 5)
    lines = [
        json.loads(one)
        for one in reject_lines(newest_rejects(many.warehouse.rejects.existing(), None))
    ]
    assert len(lines) == (6 if bound == "MOST_ROWS" else 2)
    assert all("id" in one for one in lines[:-1])
    assert list(lines[-1]) == ["left_out"]


def test_the_ledger_counts_them_by_run_and_reason(place: Place) -> None:
    counts = rejected_rows(place.warehouse.ledger.existing(), place.name)
    assert {(one.run, one.rows) for one in counts} == {("run", 2), ("next", 1)}
    assert rejected_rows(place.warehouse.ledger.existing(), "another") == ()


@pytest.mark.parametrize(
    ("raw", "keys"),
    [
        ('{"at": "yesterday", "key": "AT", "amount": "x"}', {"key": "AT"}),
        ('{"key": 1.50}', {"key": "1.50"}),
        ('{"key": {"a": 1}}', {}),
        ('{"key": "AT"', {}),
        (f'{{"key": "{"a" * 70_000}"}}', {}),
        (None, {}),
    ],
)
def test_keys_are_what_the_line_says(place: Place, raw: str | None, keys: dict[str, str]) -> None:
    assert keys_in(raw, find_pipeline(place.name, place.settings)) == keys
