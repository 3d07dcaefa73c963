"""Names, each of which stands for one thing, and first sentences, which stand alone."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import tidemark
from tidemark import errors

TREES = {
    file: ast.parse(file.read_text(encoding="utf-8"))
    for file in sorted(Path(tidemark.__file__).parent.rglob("*.py"))
}
# They tell of another name, which a reader would have to know first.
_DEPENDENT = ("The same", "As ", "What of ")
# A retry helps with the first two, as is said of a name that is not known; the last ends no run.
_ELSEWHERE = {"FileMissing", "FileInTheWay", "PipelineFileInvalid"}


def test_no_class_name_stands_twice() -> None:
    classes = [
        node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef)
    ]
    twice = [name for name, times in Counter(classes).items() if times > 1]
    assert not twice, "A reader who looks for one of them finds the other"


def test_what_the_row_of_a_run_says_of_its_error_is_told_by_one_of_the_errors() -> None:
    known = _ELSEWHERE | {name for name, one in vars(errors).items() if isinstance(one, type)}
    found = {
        node.name
        for file, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and file != Path(errors.__file__)
        if known & {base.id for base in node.bases if isinstance(base, ast.Name)}
    }
    assert found == _ELSEWHERE, "Status knows an error of a run by its name in errors.py alone"


@pytest.mark.slow
def test_the_first_sentence_of_a_docstring_stands_alone() -> None:
    found = [
        f"{file.name}: {text.splitlines()[0]}"
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (text := ast.get_docstring(node) or "").startswith(_DEPENDENT)
    ]
    assert found == []
