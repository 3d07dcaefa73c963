"""The site's order has each page once, and its references all that schema and command have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from docs.site.build import command_page, index_of, sections
from docs.site.reference import reference_of
from tidemark.cli.main import app

REPOSITORY = Path(__file__).parents[1]
CONTENTS = (REPOSITORY / "docs" / "contents.md").read_text("utf-8")
SCHEMA = json.loads((REPOSITORY / "include/pipelines/pipeline.schema.json").read_text("utf-8"))


def test_the_order_has_each_page_once() -> None:
    ordered = Counter(page for pages in sections(CONTENTS).values() for page in pages)
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    there = Counter(str(page.relative_to(REPOSITORY).with_suffix("")) for page in pages)
    assert ordered == there - Counter(["docs/contents"])
    assert all(page in index_of(CONTENTS) for page in ordered)


def test_a_newcomer_meets_what_comes_first_first() -> None:
    order = ["Start", "Describe", "Run", "Read", "Operate", "Understand", "Decide"]
    assert list(sections(CONTENTS)) == order


def test_the_reference_has_each_field_of_each_part_of_a_pipelines_file() -> None:
    page = reference_of(SCHEMA)
    for name, part in [("A pipeline's file", SCHEMA), *SCHEMA["$defs"].items()]:
        (section,) = [one for one in page.split("\n## ") if one.startswith(f"{name}\n")]
        missing = [each for each in part.get("properties", ()) if f"| `{each}` |" not in section]
        assert missing == [], name


def commands(command: object, name: str) -> Iterator[tuple[str, object]]:
    yield name, command
    for each, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {each}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command"), list(commands(typer.main.get_command(app), "tidemark"))
)
def test_the_reference_has_each_command_with_its_options(name: str, command: object) -> None:
    page = command_page()
    (section,) = [one for one in page.split("\n#") if one.partition("\n")[0].endswith(f"`{name}`")]
    parameters = getattr(command, "params", ())
    options = [one.opts[0] for one in parameters if one.opts[0].startswith("--") and not one.hidden]
    assert [each for each in options if f"`{each}" not in section] == []
