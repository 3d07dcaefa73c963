"""Names: each stands for one thing."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import tidemark


def test_no_class_name_stands_twice() -> None:
    files = Path(tidemark.__file__).parent.rglob("*.py")
    classes = [
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    twice = [name for name, times in Counter(classes).items() if times > 1]
    assert not twice, "A reader who looks for one of them finds the other"
