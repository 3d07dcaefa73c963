"""The pages for whoever works on the code name files and functions that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "include" / "tidemark"
ROOMS = {path.stem for path in PACKAGE.iterdir() if path.name[0].islower()}
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")

_FENCE = re.compile(r"^```\w*\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_TICKS = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#:]+)\)")
_PATH = re.compile(r"[\w.]+/[\w./-]*|[\w-]+\.(?:py|md|toml|yaml)|Makefile")
_DOTTED = re.compile(rf"(?<![\w./])(?:{'|'.join(sorted(ROOMS))})(?:\.\w+)+")
# What a pipeline's root holds, in the diagram of a run, and what set-up makes.
_NOT_HERE = re.compile(r"ops/\w+|\.tidemark/\w+")


@cache
def defined_in(file: Path) -> dict[str, set[str]]:
    """The functions and classes of a module; of a class, its methods."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = set()
        elif isinstance(node, ast.ClassDef):
            found[node.name] = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    return found


def is_defined(dotted: str) -> bool:
    """Is it `room.module.function`, or `room.module.Class.method`, of the package?"""
    place, names = PACKAGE, dotted.split(".")
    while names and (place / names[0]).is_dir():
        place /= names.pop(0)
    if not names or not (file := place / f"{names.pop(0)}.py").is_file():
        return False
    found = defined_in(file)
    match names:
        case [name]:
            return name in found
        case [name, method]:
            return method in found.get(name, ())
    return False


def is_there(path: str) -> bool:
    return (REPOSITORY / path).exists() or (PACKAGE / path).exists()


def split(page: str) -> tuple[str, str]:
    """A page's code blocks, and what is around them."""
    return "\n".join(_FENCE.findall(page)), _FENCE.sub("", page)


def named(page: str) -> list[str]:
    """All paths and functions that a page names: those in backticks, in code and in diagrams."""
    code, text = split(page)
    ticked = _TICKS.findall(text)
    paths = [path for one in [*ticked, *code.split()] for path in _PATH.findall(one)]
    dotted = [name for one in [*ticked, code] for name in _DOTTED.findall(one)]
    return [*(path for path in paths if not _NOT_HERE.fullmatch(path)), *dotted]


def is_right(name: str) -> bool:
    return is_there(name) if _PATH.fullmatch(name) else is_defined(name)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    assert [name for name in named(text) if not is_right(name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_is_there(page: str) -> None:
    folder = (REPOSITORY / page).parent
    links = _LINK.findall((REPOSITORY / page).read_text())
    assert links
    assert [link for link in links if not (folder / link).exists()] == []


def test_every_room_is_on_the_page() -> None:
    text = (REPOSITORY / PAGES[0]).read_text()
    of_rooms = {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    files = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    table = text.partition("## The rooms")[2].partition("\n\n`make lint`")[0]
    assert {name for name in _TICKS.findall(table) if name in of_rooms | files} >= of_rooms


@pytest.mark.parametrize(
    "wrong",
    ["`gold/plan_publish.py`", "`gold.plan.publish_plan`", "`gold.plans.plan_publish`",
     "`storage.lease.held.Lease.lose`", "```\nlook  runs.preflight.looked ─► runs.preflight\n```\n",
     "`tests/kit/none.py`", "```sh\npython -m pytest tests/operator\n```\n"],
)  # fmt: skip
def test_what_is_not_there_is_found(wrong: str) -> None:
    assert [name for name in named(wrong) if not is_right(name)]


def test_the_page_can_be_read_at_once() -> None:
    assert len((REPOSITORY / PAGES[0]).read_text("utf-8").splitlines()) <= 200
