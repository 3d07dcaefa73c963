"""Data Docs: what comes from rows, pipeline files and run ids is text in them, and nothing runs."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.kit.windows import at, window
from tests.quality.held import Held
from tidemark.pipeline.expectations import EXPECTED
from tidemark.quality.data_docs import write_docs
from tidemark.quality.expectations import TableExpectations
from tidemark.quality.verdicts import CheckVerdict

HOSTILE = """</td></table><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;$key"""
LINK = "[here](javascript:alert(3)) <b>bold</b>"


class Page(HTMLParser):
    """A page's elements with the names of their attributes, its links, and what it shows."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.links: list[str] = []
        self.policy = ""
        self.text = ""
        self.feed(place.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.elements.append((tag, *told))
        self.links += [told[name] for name in ("href", "src") if name in told]
        if told.get("http-equiv") == "Content-Security-Policy":
            self.policy = told["content"]

    def handle_data(self, data: str) -> None:
        self.text += data


def pages(root: Path, value: str, note: str, run_id: str) -> tuple[Page, Page]:
    """The index and the table's page of a run whose row, checks and id say this."""
    total = {"column": "total", "max_value": 1, "notes": note, "description": note}
    checks: list[Any] = [
        {"ExpectColumnValuesToBeInSet": {"column": "key", "value_set": ["a", value]}},
        {"ExpectColumnValuesToMatchRegex": {"column": "key", "regex": f"^{note}$"}},
        {"ExpectColumnDistinctValuesToBeInSet": {"column": "key", "value_set": [note]}},
        {"ExpectColumnMostCommonValueToBeInSet": {"column": "key", "value_set": [note]}},
        {"ExpectCompoundColumnsToBeUnique": {"column_list": ["key", "window_date"]}},
        {"ExpectColumnMaxToBeBetween": total},
    ]
    held = Held(root, [{"warn": check} for check in checks])
    rows = [window(at(10, 10 * n), key=key, total=5) for n, key in enumerate((value, value, "b"))]
    index = held.gated(held.run(*rows, run_id=run_id)).validation.data_docs
    assert index is not None
    return Page(Path(index)), Page(Path(index).with_name("table-per_10m.html"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1], ids=["index", "table"])
def test_no_element_of_a_page_comes_from_data_which_it_shows_as_text(
    number: int, tmp_path: Path
) -> None:
    page = pages(tmp_path / "hostile", HOSTILE, LINK, f"run {HOSTILE}")[number]
    plain = pages(tmp_path / "plain", "plain", "note", "run")[number]
    assert page.elements == plain.elements
    assert f"run {HOSTILE}" in page.text
    if number:
        assert page.text.count(HOSTILE) > 4
        assert f"values must match this regular expression: ^{LINK}$" in " ".join(
            page.text.split()
        ), "the check's own"


def test_a_page_names_its_table(tmp_path: Path) -> None:
    _, page = pages(tmp_path, "x", "ask the others", "run")
    assert "Data asset: per_10m" in " ".join(page.text.split())


def test_notes_stand_in_the_list_above_what_was_seen(tmp_path: Path) -> None:
    _, page = pages(tmp_path, "x", "ask the others", "run")
    above, _, below = page.text.partition("Evaluated Expectations")
    assert "notes='ask the others'" in above
    assert "notes" not in below


def test_a_page_loads_nothing_and_its_policy_lets_nothing_run(tmp_path: Path) -> None:
    for page in pages(tmp_path, HOSTILE, LINK, "run"):
        told = dict(part.strip().split(" ", 1) for part in page.policy.split(";"))
        assert told.pop("style-src") == "'unsafe-inline'"
        assert set(told) == {"default-src", "base-uri", "form-action"}
        assert set(told.values()) == {"'none'"}
        assert set(page.links) <= {"index.html", "table-per_10m.html"}
        assert not {"script", "img", "link", "iframe", "form"} & {one[0] for one in page.elements}
        assert not [one for one in page.elements if any(name.startswith("on") for name in one[1:])]


ARGUMENTS: dict[str, Any] = {
    "column": "key",
    "column_A": "total",
    "column_B": "total",
    "column_list": ["key", "window_date"],
    "value_set": ["a"],
    "regex": "^a",
    "regex_list": ["^a"],
    "value": 1,
    "min_value": 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("where", [None, "total > 5"], ids=["rows", "none"])
def test_each_expectation_has_a_page_where_it_is_met_or_not_and_where_no_row_is_meant(
    where: str | None, tmp_path: Path
) -> None:
    checks: list[Any] = []
    for name, expected in EXPECTED.items():
        takes = set(expected.needs) | ({"min_value"} & set(expected.takes))
        asked = {argument: ARGUMENTS[argument] for argument in takes}
        if "column" in asked and "min_value" in asked and "Length" not in name:
            asked["column"] = "total"
        checks.append({"warn": {name: asked}} | ({"where": where} if where else {}))
    held = Held(tmp_path, checks)
    rows = [window(at(10, 10 * n), key=key, total=5) for n, key in enumerate(("a", "b", "b"))]
    gated = held.gated(held.run(*rows))
    assert gated.run.error is None
    told = [one for one in gated.validation.verdicts if one.check.startswith("Expect")]
    assert [one.check for one in told if "nobody can tell" in one.observed] == []
    assert len(told) == len(EXPECTED)
    index = gated.validation.data_docs
    assert index is not None
    page = Page(Path(index).with_name("table-per_10m.html"))
    assert page.text.count(f"where {where}: ") == (len(EXPECTED) if where else 0)
    for one in told:
        assert f"{one.check}: {one.observed}" in page.text


def test_a_table_that_is_named_as_the_index_has_a_page_of_its_own(tmp_path: Path) -> None:
    one = CheckVerdict(
        table=None, check="of it", severity="fail", passed=True, observed="9", rows=1
    )
    judged = [TableExpectations(name, (one,), ()) for name in ("index", "other")]
    index = write_docs(Held(tmp_path, []).place.warehouse, "run", at(12), judged, 30)
    assert [Path(link).stem for link in Page(Path(index)).links] == ["table-index", "table-other"]
    for link in Page(Path(index)).links:
        assert Page(Path(index).with_name(link)).links == ["index.html"]
