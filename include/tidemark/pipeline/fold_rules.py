"""What a fold says together with the rest of its pipeline's file, and with its class's file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidemark.pipeline import names
from tidemark.pipeline.expressions.names import Scope, known_name
from tidemark.pipeline.fold_code import read_fold_code
from tidemark.pipeline.model import FoldTable, Pipeline
from tidemark.pipeline.problems import Problem
from tidemark.pipeline.sections import Section, section
from tidemark.pipeline.yaml_file import Document, KeyPath

# What tells the outputs of an episode apart, in gold and `changes`.
NUMBER = "number"
_NUMBERED = "is kept for a column of a fold's table: which of an episode's outputs a row is"
# What is said of a column that the platform has itself.
IN_USE = f"is kept for a column of the platform; kept: {', '.join(names.COLUMNS_IN_USE)}"

FoldCode = Mapping[str, dict[str, str]]


def find_broken_folds(
    document: Document, path: KeyPath, table: Section, keys: list[str], scope: Scope
) -> Iterator[Problem]:
    """The problems of a fold's keys and of the columns that it puts out; of a table of another kind
    none."""
    if "fold" not in table:
        return
    yield from _unfit_keys(document, path, keys, scope)
    order_by = list(section(table, "fold").get("order_by") or ())
    yield from _misspelled(document, (*path, "group_by"), keys, scope)
    yield from _misspelled(document, (*path, "fold", "order_by"), order_by, scope)
    if "code" in section(section(document.content, "tables"), str(path[-1])):
        message = "is not a known key: the code of a fold stands in the file of `fold.python`"
        yield document.problem((*path, "code"), message, at_key=True)
    taken = {names.folded(key): f"the key `{key}`" for key in keys}
    for place, key in enumerate(keys):
        if names.folded(key) == NUMBER:
            yield document.problem((*path, "group_by", place), _NUMBERED, value=key)
    for name in section(section(table, "fold"), "emits"):
        place_of = (*path, "fold", "emits", name)
        if names.folded(name) == NUMBER:
            yield document.problem(place_of, _NUMBERED, value=name, at_key=True)
        elif names.folded(name) in names.COLUMNS_IN_USE:
            yield document.problem(place_of, IN_USE, value=name, at_key=True)
        if other := taken.get(names.folded(name)):
            message = f"has the same name as {other}"
            yield document.problem(place_of, message, value=name, at_key=True)
        taken[names.folded(name)] = f"the emitted column `{name}`"


def _unfit_keys(
    document: Document, path: KeyPath, keys: list[str], scope: Scope
) -> Iterator[Problem]:
    """Of a derived name only Spark knows which type it is."""
    for place, key in enumerate(keys):
        known = known_name(key, scope)
        if known and known.type and not known.derived:
            if known.type.is_type("float", "double"):
                yield document.problem((*path, "group_by", place), inexact(), value=key)
            if known.type.is_type("array", "map", "struct"):
                yield document.problem((*path, "group_by", place), nested(), value=key)


def _misspelled(
    document: Document, path: KeyPath, given: Sequence[object], scope: Scope
) -> Iterator[Problem]:
    """A class has a row's columns by their names, as the source writes them."""
    for place, name in enumerate(given):
        if not isinstance(name, str):
            continue
        if (known := known_name(name, scope)) and known.name != name:
            message = f"is written `{known.name}` in the source; a fold takes it as it stands there"
            yield document.problem((*path, place), message, value=name)


def inexact() -> str:
    """What is said of a key that is a float."""
    return (
        "is a float or a double: NaN, and 0.0 and -0.0, are one key to one who groups and two to "
        "another; group by a decimal, or by what is `derive`d from it"
    )


def nested() -> str:
    """What is said of a key that has parts: PySpark hands its names to its workers in small
    letters, and that of an array fails there (`Conf.get` of pyspark/worker_util.py, and seen)."""
    return (
        "is an array, a map or a struct: Spark cannot keep a fold's state by these; group by its "
        "parts, or by a text that is `derive`d from it, as by `to_json`"
    )


def fold_code_of(
    document: Document, usable: Section, folder: Path | None
) -> tuple[FoldCode, list[Problem]]:
    """The code of each fold, by its table, and what is wrong with it. Without a folder none is
    looked for."""
    code: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for name, table in section(usable, "tables").items():
        python = section(table, "fold").get("python")
        if folder is None or not isinstance(python, str):
            continue
        try:
            code[name] = read_fold_code(folder, python)
        except ValueError as error:
            path = ("tables", name, "fold", "python")
            problems.append(document.problem(path, str(error), value=python))
    return code, problems


def with_fold_code(pipeline: Pipeline, code: FoldCode) -> Pipeline:
    """The pipeline whose folds have their code."""
    if not code:
        return pipeline
    tables = {
        name: table.model_copy(update={"code": code[name]}) if name in code else table
        for name, table in pipeline.tables.items()
    }
    return pipeline.model_copy(update={"tables": tables})


def write_fold_code(pipeline: Pipeline, folder: Path) -> None:
    """Write the code of the pipeline's folds below a folder, as it lay below that of its file."""
    for table in pipeline.tables.values():
        for path, source in table.code.items() if isinstance(table, FoldTable) else ():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(source, encoding="utf-8")
