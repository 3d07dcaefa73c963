"""What each value of a pipeline file says by itself: pydantic's errors as problems."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidemark.pipeline.model import (
    SOURCE_KINDS,
    Column,
    Pipeline,
    Session,
    Source,
    Table,
    Window,
    source_kind,
    table_kind,
)
from tidemark.pipeline.problems import Problem, nearest
from tidemark.pipeline.sections import section
from tidemark.pipeline.yaml_file import Document, KeyPath

_EXPECTED = {
    "string_type": "text",
    "dict_type": "a mapping of keys to values",
    "list_type": "a list",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
}
_AS_A_MAPPING = "type: long, nullable: false"
# Fields of a Pipeline that are no keys of its file.
_NOT_GIVEN = {
    "name": "the file's name is the pipeline's name",
    "partners": "a join's other pipeline is found by its own file",
}
_MAPPINGS = ("model_type", "model_attributes_type")


def structural_problems(document: Document, name: str) -> tuple[list[Problem], dict[str, Any]]:
    """The problems of single values, and the content without the values that have one. A key that
    is near one that is not there is taken for it in the document, once it is told."""
    problems = _taken_for_near_keys(document, name)
    content = dict(document.content)
    for key, where in _NOT_GIVEN.items():
        if key in content:
            del content[key]
            message = f"is not given in the file: {where}"
            problems.append(document.problem((key,), message, at_key=True))
    usable = copy.deepcopy(content)
    for path, details in _by_place(_details(content, name), content).items():
        problems += _problems(document, details, path, name)
        _remove(usable, path)
    return problems, usable


def _taken_for_near_keys(document: Document, name: str) -> list[Problem]:
    """Each key that is not known is taken for a near one that is not there, so that it is told
    once, and not once more for all that rests on it."""
    problems: list[Problem] = []
    while typos := list(_typos(document, name)):
        # What is given here without a file is the caller's.
        document.content = copy.deepcopy(document.content)
        for path, problem in typos:
            problems.append(problem)
            document.take_for(path, str(problem.nearest))
    return problems


def _typos(document: Document, name: str) -> Iterator[tuple[KeyPath, Problem]]:
    found: set[KeyPath] = set()
    given = {key: value for key, value in document.content.items() if key not in _NOT_GIVEN}
    for detail in _details(given, name):
        if detail["type"] != "extra_forbidden":
            continue
        path = _path(detail, document.content)
        problem = _problem(document, detail, path, name)
        near = problem.nearest
        beside: Any = document.content
        for part in path[:-1]:
            beside = beside[part]
        if near is not None and near not in beside and (*path[:-1], near) not in found:
            found.add((*path[:-1], near))
            yield path, problem


def _details(content: Mapping[str, Any], name: str) -> list[ErrorDetails]:
    try:
        Pipeline.model_validate({**content, "name": name})
        return []
    except ValidationError as error:
        return error.errors(include_url=False)


def _by_place(
    details: list[ErrorDetails], content: Mapping[str, Any]
) -> dict[KeyPath, list[ErrorDetails]]:
    """By the place in the file: of a value that can be one of several things, what each says; only
    those that look further into it, where one does."""
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in details:
        found.setdefault(_path(detail, content), []).append(detail)
    deeper = {path[:length] for path in found for length in range(len(path))}
    either = {path for path in deeper & found.keys() if any(map(_is_alternative, found[path]))}
    return {path: those for path, those in found.items() if path not in either}


def _is_alternative(detail: ErrorDetails) -> bool:
    """Is it the word of one of several alternatives, whose name pydantic puts last?"""
    return detail["type"] in {**_EXPECTED, "literal_error": ""} and not isinstance(
        detail["loc"][-1], int
    )


def _path(detail: ErrorDetails, content: Any) -> KeyPath:
    """The part of pydantic's location that stands in the file, and one missing key after it.

    pydantic adds `[key]` for a key that is wrong, and names of its own for alternatives.
    """
    path: list[str | int] = []
    loc = detail["loc"]
    for part in loc:
        if isinstance(content, dict) and part not in content:
            # A key that is a number: the file has text.
            part = str(part)
        inside = isinstance(content, dict) and part in content
        inside = inside or (isinstance(content, list) and isinstance(part, int))
        if not inside:
            if detail["type"] == "missing" and part == loc[-1]:
                return (*path, part)
            continue
        path.append(part)
        content = content[part] if not isinstance(content, list) else content[int(part)]
    return tuple(path)


def _problems(
    document: Document, details: list[ErrorDetails], path: KeyPath, name: str
) -> list[Problem]:
    if len(details) == 1 or not all(map(_is_alternative, details)):
        return [_problem(document, detail, path, name) for detail in details]
    allowed = dict.fromkeys(
        f"one of {detail['ctx']['expected'].replace(' or ', ', ')}"
        if detail["type"] == "literal_error"
        else _EXPECTED[detail["type"]]
        for detail in details
    )
    message = f"should be {' or '.join(allowed)}"
    if description := _description(path, document.content):
        message += f" ({description.rstrip('.')})"
    return [document.problem(path, message, value=_value(details[0]["input"]))]


def _problem(document: Document, detail: ErrorDetails, path: KeyPath, name: str) -> Problem:
    kind, loc = detail["type"], detail["loc"]
    if loc == ("name",):
        return Problem(document.file, None, None, "", name, detail["msg"].split(", ", 1)[1])
    if kind == "missing":
        return document.problem(path, "is missing")
    if path == ("source", "event_time", "column") and detail["input"] is None:
        message = "is open: name the column that holds the time of each row, of type timestamp, as"
        return document.problem(path, f"{message} in `event_time: {{column: at}}`")
    if kind == "extra_forbidden":
        known = _known_keys(path, document.content)
        kinds = SOURCE_KINDS if path[:-1] == ("source",) else {}
        if path[-1] in kinds:
            first = next(key for key in kinds if key in known)
            message = f"stands beside `{first}`; rows come from one of them"
            return document.problem(path, message, at_key=True)
        message = f"is not a known key; allowed: {', '.join(known)}"
        near = nearest(str(path[-1]), [*known, *kinds])
        return document.problem(path, message, nearest=near, at_key=True)
    if loc and loc[-1] == "[key]":
        message = _message(detail)
        return document.problem(path, message, value=str(path[-1]), at_key=True)
    message = _mapping(detail, path, document.content) if kind in _MAPPINGS else _message(detail)
    return document.problem(path, message, value=_value(detail["input"]))


def _mapping(detail: ErrorDetails, path: KeyPath, content: Mapping[str, Any]) -> str:
    """Which keys a mapping takes that is none, and how the value would stand in it."""
    if _model_of(path, content) is Column:
        return f"should be a type, as in `{path[-1]}: long` or `{path[-1]}: {{{_AS_A_MAPPING}}}`"
    keys = _known_keys((*path, ""), content)
    message = f"should be a mapping with the keys {', '.join(keys)}"
    given = _value(detail["input"])
    if given in (None, "null") or not isinstance(path[-1], str):
        return message
    return f"{message}, as in `{path[-1]}: {{{keys[0]}: {given}}}`"


def _message(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"is not allowed; allowed: {context['expected']}"
    if kind == "string_too_short":
        return "is empty"
    if kind == "too_short":
        return "is empty, and needs at least one entry"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}"
    if expected := _EXPECTED.get(kind):
        given = _value(detail["input"])
        hint = f": [{given}]" if expected == "a list" and given not in (None, "null") else ""
        quotes = "; put it in quotes" if expected == "text" and given != "null" else ""
        return f"should be {expected}{hint}{quotes}"
    return detail["msg"][0].lower() + detail["msg"][1:]


def _value(given: object) -> str | None:
    if isinstance(given, dict | list | tuple) or given is None:
        return None if given is not None else "null"
    return str(given).lower() if isinstance(given, bool) else str(given)


def _known_keys(path: KeyPath, content: Mapping[str, Any]) -> list[str]:
    """The keys that the model at `path`'s parent has; of a source, those of its kind first."""
    model = _model_of(path[:-1], content)
    keys = sorted(model.model_fields, key=Source.model_fields.__contains__)
    written = [model.model_fields[key].alias or key for key in keys]
    if model is Window:
        # A table that names no kind's own key is taken for one of windows.
        written += Session.model_fields
    return [key for key in written if model is not Pipeline or key not in _NOT_GIVEN]


def _model_of(path: KeyPath, content: Mapping[str, Any]) -> type[BaseModel]:
    """The model of what stands at a path."""
    model: type[BaseModel] = Pipeline
    for part in path:
        field = model.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field else None
        if inner is Source:
            inner = source_kind(content.get("source"))
        elif inner is Table:
            inner = table_kind(section(section(content, "tables"), str(path[1])))
        model = inner or model
    return model


def _description(path: KeyPath, content: Mapping[str, Any]) -> str:
    """What the file's model says of the value at a path."""
    field = _model_of(path[:-1], content).model_fields.get(str(path[-1])) if path else None
    return (field.description if field else None) or ""


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _remove(content: Any, path: KeyPath) -> None:
    for part in path[:-1]:
        if not isinstance(content, dict) or part not in content:
            return
        content = content[part]
    if path and isinstance(content, dict):
        content.pop(path[-1], None)
