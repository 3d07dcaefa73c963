"""The parts of the tests beside those of `make test` each have some."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import PARTS, SECOND, WITNESSES, part_of

REPOSITORY = Path(__file__).parents[1]
FILES = [
    f"{path.relative_to(REPOSITORY)}"
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py"))
    if "mark.long" in path.read_text(encoding="utf-8")
]


def test_each_part_has_long_tests_and_each_beginning_names_some() -> None:
    assert {part_of(file) for file in FILES} == PARTS.keys()
    unused = [
        begins
        for named in PARTS.values()
        for begins in named
        if not any(file.startswith(begins) for file in FILES)
    ]
    assert unused == []


def test_the_makefile_names_the_parts_that_there_are() -> None:
    told = re.search(
        r"# Of the long tests: ([\w ,\n#]+), as", (REPOSITORY / "Makefile").read_text("utf-8")
    )
    assert told is not None
    assert set(re.findall(r"\w+", told[1].replace(" or ", " "))) == PARTS.keys()


def test_each_file_with_witnesses_is_there_and_has_them() -> None:
    for file, witness in WITNESSES.items():
        text = (REPOSITORY / file).read_text("utf-8")
        name = (witness or "def test").split("[")[0].removeprefix("recursive=True, name='")
        assert name in text, file


def test_what_make_test_leaves_out_the_build_runs_by_its_part() -> None:
    assert f"make test-all PART={SECOND}" in (REPOSITORY / ".ci" / "run").read_text("utf-8")
