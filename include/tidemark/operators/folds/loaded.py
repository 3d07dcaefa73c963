"""A fold's class, made from the source that the pipeline's model carries.

Tasks, tests and the driver all make it here, so that the same code runs everywhere. Its modules get
names of their own, by what they hold: a Python worker that Spark keeps meets the code of several
generations and pipelines, and two of them may have a module `visits`.
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path, PurePosixPath
from types import CodeType, ModuleType
from typing import Any

from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.said import named
from tidemark.operators.folds.states import states_of
from tidemark.pipeline.fold_code import METHODS, read_fold_code, split_python


def load_fold(python: str, code: Mapping[str, str]) -> type[Any]:
    """The class. PipelineInvalid where its module cannot be imported, or it is no fold."""
    return _loaded(python, tuple(sorted(code.items())))


@cache
def _loaded(python: str, code: tuple[tuple[str, str], ...]) -> type[Any]:
    file, name = split_python(python)
    sources = dict(code)
    if file not in sources:
        raise PipelineInvalid(
            f"The fold {python} has no code: its pipeline was not loaded from a file."
        )
    try:
        module = _Modules(sources, PurePosixPath(file).parent).load(file)
        found = getattr(module, name, None)
    except (Exception, SystemExit) as error:
        raise PipelineInvalid(f"The fold {python} cannot be imported: {named(error)}") from error
    if not isinstance(found, type):
        raise PipelineInvalid(f"The fold {python} has no class `{name}`.")
    checked_fold(found)
    return found


def load_again(file: str, name: str, code: Mapping[str, str]) -> type[Any]:
    """A class that loads, of modules of its own: what others keep in theirs is not in these. The
    one that was loaded so before is not to be used any more."""
    found: type[Any] = getattr(
        _Modules(code, PurePosixPath(file).parent, "_again").load(file), name
    )
    return found


def checked_fold(found: type[Any]) -> None:
    """PipelineInvalid where a class is no fold."""
    if lacking := [method for method in METHODS if not callable(getattr(found, method, None))]:
        raise PipelineInvalid(_said(found, f"it lacks the method `{lacking[0]}`"))
    try:
        found()
    except (Exception, SystemExit) as error:
        raise PipelineInvalid(
            _said(found, f"it cannot be made without arguments: {named(error)}")
        ) from error
    try:
        states_of(found).check()
    except PipelineInvalid as error:
        raise PipelineInvalid(_said(found, str(error))) from error


def _said(fold: type[Any], what: str) -> str:
    return f"The class {fold.__name__} is no fold: {what}."


@cache
def _compiled(source: str, path: str) -> CodeType:
    return compile(source, path, "exec")


class _Modules:
    """The modules of one version of the code. Each import in them that names another of them finds
    that, whatever else has its name."""

    def __init__(self, sources: Mapping[str, str], home: PurePosixPath, suffix: str = "") -> None:
        self.sources = sources
        self.home = home
        text = "\0".join(f"{path}\0{source}" for path, source in sources.items())
        self.prefix = f"_fold_{hashlib.sha256(text.encode()).hexdigest()[:16]}{suffix}"
        self.modules: dict[str, ModuleType] = {}

    def load(self, path: str) -> ModuleType:
        if path in self.modules:
            return self.modules[path]
        name = f"{self.prefix}_{PurePosixPath(path).stem}"
        module = ModuleType(name)
        module.__file__ = path
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
        # Dataclasses and pydantic look a class's module up by its name.
        self.modules[path] = sys.modules[name] = module
        try:
            exec(_compiled(self.sources[path], path), module.__dict__)
        except BaseException:
            del self.modules[path], sys.modules[name]
            raise
        return module

    def _import(
        self,
        name: str,
        given_globals: Any = None,
        given_locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        path = str(self.home / f"{name}.py")
        if level == 0 and path in self.sources:
            return self.load(path)
        return builtins.__import__(name, given_globals, given_locals, fromlist, level)


def code_of(kind: type[Any]) -> dict[str, str]:
    """Of a class that is at hand, as in a test: the source of its module, and of those beside that
    which it imports, where it is as in a run; none where there is no file."""
    code: dict[str, str] = {}
    with suppress(TypeError, OSError, UnicodeDecodeError):
        file = Path(inspect.getfile(kind))
        code[str(file)] = file.read_text(encoding="utf-8")
    if code and _is_as_in_a_run(kind):
        with suppress(ValueError):
            beside = read_fold_code(file.parent, f"{file.name}:{kind.__name__}")
            code |= {str(file.parent / path): text for path, text in beside.items()}
    return code


def maker_of(kind: type[Any], code: Mapping[str, str]) -> Callable[[], type[Any]] | None:
    """What makes the class again of its code; None where it is not as in a run."""
    if not code or not _is_as_in_a_run(kind):
        return None
    return partial(load_again, inspect.getfile(kind), kind.__name__, code)


def _is_as_in_a_run(kind: type[Any]) -> bool:
    """Does it stand at the top of a file of its own? A module of tests is not run a second time."""
    loader = getattr(sys.modules.get(kind.__module__), "__loader__", None)
    of_tests = type(loader).__module__.startswith("_pytest")
    return not of_tests and kind.__qualname__ == kind.__name__
