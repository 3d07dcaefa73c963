"""The long tests fall into parts that each have some."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import PARTS, part_of

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
