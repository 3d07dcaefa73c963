"""What the pages show can be typed: commands and their options, targets, jobs, modules, links."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from tidemark.cli.main import app

REPOSITORY = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *(f"docs/{page.name}" for page in sorted((REPOSITORY / "docs").glob("*.md"))),
]
SOURCES = sorted((REPOSITORY / "include" / "tidemark").rglob("*.py"))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")
# A command of ours: a line of code that begins with it, or has it behind what starts it
# elsewhere; or all that stands between backticks, in a page or a message.
_TYPED = re.compile(
    r"^\s*(?:\$ )?(?:docker compose .*|kubectl .* -- )?tidemark ((?:[a-z]|--)[^\n|>;&#)]*)",
    re.MULTILINE,
)
_TICKED = re.compile(r"`tidemark ((?:[a-z]|--)[^`]*)`")
_TARGET = re.compile(r"(?:^|`)make ([a-z][a-z-]*)", re.MULTILINE)
_JOB = re.compile(r"\bjobs/(\w+\.py)")


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text("utf-8")


def code_of(page: str, *languages: str) -> list[str]:
    return [code for language, code in _FENCE.findall(text_of(page)) if language in languages]


def why_not(command: str) -> str | None:
    """Why a command line could not be typed, as the command itself would say it.

    What is missing is not asked for: a text names `tidemark accept` without a pipeline.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    known = typer.main.get_command(app)
    while (inner := getattr(known, "commands", None)) is not None and words:
        name = words.pop(0)
        if name.startswith("-"):
            return None if name in ("--help", "-h", "--version") else f"no option {name}"
        if name not in inner:
            return f"no command {name}"
        known = inner[name]
    options = {each for parameter in known.params for each in parameter.opts}
    given = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    wrong = [word for word in given if word not in options | {"--help", "-h"}]
    return f"{known.name} has no option {wrong[0]}" if wrong else None


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_each_command_that_a_page_names_can_be_typed(page: str) -> None:
    lines = "\n".join(code_of(page, "sh", "")).replace("\\\n", " ")
    found = [*_TYPED.findall(lines), *_TICKED.findall(_FENCE.sub("", text_of(page)))]
    assert {f"tidemark {each}": why for each in found if (why := why_not(each))} == {}


@pytest.mark.slow
def test_each_command_that_a_message_names_can_be_typed() -> None:
    """Messages and docstrings alike, in backticks: `tidemark accept PIPELINE`."""
    wrong = {}
    for file, text in _texts_of_the_code():
        for command in _TICKED.findall(text):
            if why := why_not(command):
                wrong[f"{file}: tidemark {command}"] = why
    assert wrong == {}


def _texts_of_the_code() -> Iterator[tuple[str, str]]:
    """Each text of the package, with what a formatted one leaves open as a word."""
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values]
                yield file.name, "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield file.name, node.value


@pytest.mark.parametrize("page", PAGES)
def test_each_target_and_job_that_a_page_names_is_there(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    code = "\n".join(code_of(page, "sh", ""))
    ticked = "\n".join(re.findall(r"`make [a-z-]+[^`]*`", text_of(page)))
    assert set(_TARGET.findall(f"{code}\n{ticked}")) <= targets
    assert [job for job in _JOB.findall(text_of(page)) if not is_file(f"jobs/{job}")] == []


def is_file(path: str) -> bool:
    return (REPOSITORY / path).is_file()


@pytest.mark.parametrize("page", PAGES)
def test_each_link_of_a_page_leads_to_a_page_and_a_title(page: str) -> None:
    folder = (REPOSITORY / page).parent
    wrong = []
    for link, title in _LINK.findall(text_of(page)):
        target = folder / link
        if not target.exists() or (title and title not in _titles(target)):
            wrong.append(f"{link}#{title}")
    assert wrong == []


def _titles(page: Path) -> set[str]:
    """The titles of a page as links name them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_what_the_python_of_a_page_imports_is_there(page: str) -> None:
    wrong = []
    for code in code_of(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                wrong += [f"{node.module}.{n.name}" for n in node.names if not _has(node, n.name)]
            elif isinstance(node, ast.Import):
                wrong += [n.name for n in node.names if not importlib.util.find_spec(n.name)]
    assert wrong == []


def _has(node: ast.ImportFrom, name: str) -> bool:
    """Is it a name of the module? Ours are imported; of others the module alone is looked for."""
    module = str(node.module)
    if not module.startswith("tidemark"):
        return importlib.util.find_spec(module) is not None
    return hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("validat", "no command validat"),
        ("checkpoint docter X", "no command docter"),
        ("run X --from Y", "run has no option --from"),
        ("--versions", "no option --versions"),
    ],
)
def test_what_cannot_be_typed_is_found(command: str, why: str) -> None:
    assert why_not(command) == why
