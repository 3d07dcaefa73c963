"""The Python source of a fold: which files it is, read and looked at without running any of it.

A fold's file lies below the folder of the pipelines' files, and what it imports from modules beside
it (`import visits` for `visits.py` in the same folder) belongs to it: these sources are carried in
the pipeline's model. So tasks have them wherever they run, a contract holds what a query was
started with, and a batch that a run left is finished by the very code that began it. Everything
else that the class imports is taken from the environment, and nobody notices when that changes.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from tidemark.pipeline.problems import nearest

# More than this is no class with its helpers, and each contract of the pipeline holds it.
LARGEST = 256 * 1024

# Python's hash seed wherever runs fold: by it comes the order of a set of texts.
RUN_SEED = "0"

# The methods of a fold, and how many arguments each takes, `self` among them.
METHODS: Mapping[str, int] = {"start": 1, "step": 3, "on_timeout": 2}
_CALLED = {"start": "start(self)", "step": "step(self, state, row)",
           "on_timeout": "on_timeout(self, state)"}  # fmt: skip
_NAME = re.compile(r"[^\W\d]\w*$")


def split_python(text: str) -> tuple[str, str]:
    """`FILE:Class` in its parts; ValueError says what is wrong."""
    file, colon, name = text.rpartition(":")
    if not colon or not file or not _NAME.match(name):
        raise ValueError("is not FILE:Class, as in `folds/returns.py:Returns`")
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or "\\" in file:
        raise ValueError(
            "leads out of the folder of the pipelines' files; the file lies there, or below it"
        )
    if path.suffix != ".py" or not _NAME.match(path.stem):
        raise ValueError("is no file that Python can import: NAME.py, of letters, digits and `_`")
    return str(path), name


def read_fold_code(folder: Path, python: str) -> dict[str, str]:
    """The source of the class's module and of the modules beside it that it imports, each by its
    path below the folder. ValueError where there is no such class."""
    file, name = split_python(python)
    sources: dict[str, str] = {}
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path in sources:
            continue
        sources[path] = _source(folder, path)
        waiting += _beside(folder, path, _parsed(path, sources[path]))
    if sum(map(len, sources.values())) > LARGEST:
        raise ValueError(f"is more than {LARGEST // 1024} KiB of code with what it imports")
    _check_class(file, name, _parsed(file, sources[file]))
    return dict(sorted(sources.items()))


def same_code(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Is it the same but for comments and layout?"""
    return one.keys() == other.keys() and all(
        ast.dump(ast.parse(one[path])) == ast.dump(ast.parse(other[path])) for path in one
    )


def fingerprint(source: str) -> str:
    """A few characters that tell versions of a file apart, but for comments and layout."""
    return hashlib.sha256(ast.dump(ast.parse(source)).encode()).hexdigest()[:8]


def imported_names(tree: ast.Module) -> Iterator[str]:
    """The first parts of all that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(
                    f"imports by dots in line {node.lineno}: a module beside it is imported by its "
                    "name alone"
                )
            yield (node.module or "").partition(".")[0]


def _source(folder: Path, path: str) -> str:
    place = (folder / path).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise ValueError(f"leads out of the folder {folder} by a link; the file lies below it")
    try:
        return place.read_text(encoding="utf-8")
    except FileNotFoundError:
        known = sorted(str(one.relative_to(folder).as_posix()) for one in folder.glob("**/*.py"))
        near = nearest(path, known)
        hint = f"; did you mean `{near}`?" if near else ""
        raise ValueError(f"is not there: no file `{path}` in {folder}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read: {path}: {error}") from None


def _parsed(path: str, source: str) -> ast.Module:
    try:
        return ast.parse(source, filename=path)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ValueError(f"is no Python: {path}, line {line}: {error.args[0]}") from None


def _beside(folder: Path, path: str, tree: ast.Module) -> Iterator[str]:
    """The modules of the same folder that are imported."""
    home = PurePosixPath(path).parent
    for name in imported_names(tree):
        if (folder / home / f"{name}.py").is_file():
            yield str(home / f"{name}.py")
        elif (folder / home / name / "__init__.py").is_file():
            raise ValueError(
                f"imports the package `{name}` beside it, which tasks would not have: only modules "
                f"({name}.py) are carried along"
            )


def _check_class(file: str, name: str, tree: ast.Module) -> None:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = classes.get(name)
    if found is None:
        known = ", ".join(classes) or "none"
        near = nearest(name, classes)
        hint = f"; did you mean `{near}`?" if near else ""
        raise ValueError(f"has no class `{name}`: classes of {file}: {known}{hint}")
    methods = {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}
    for method, number in METHODS.items():
        if method not in methods:
            if found.bases:
                # It may be inherited; whoever loads the class sees.
                continue
            raise ValueError(f"lacks a method: {name} has no `{_CALLED[method]}`")
        arguments = methods[method].args
        given = len(arguments.posonlyargs) + len(arguments.args)
        if given != number and arguments.vararg is None:
            raise ValueError(
                f"has a method that cannot be called: `{name}.{method}` takes {given} arguments "
                f"where a fold has `{_CALLED[method]}`"
            )
