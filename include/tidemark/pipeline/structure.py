"""What each value of a pipeline file says by itself: pydantic's errors as problems."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidemark.pipeline.model import (
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
    "string_type": "text; put it in quotes",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "list_type": "a list",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
}


def structural_problems(document: Document, name: str) -> tuple[list[Problem], dict[str, Any]]:
    """The problems of single values, and the content without the values that have one."""
    content = dict(document.content)
    problems: list[Problem] = []
    if "name" in content:
        del content["name"]
        message = "is not given in the file: the file's name is the pipeline's name"
        problems.append(document.problem(("name",), message, at_key=True))
    if "partners" in content:
        del content["partners"]
        message = "is not given in the file: a join's other pipeline is found by its own file"
        problems.append(document.problem(("partners",), message, at_key=True))
    try:
        Pipeline.model_validate({**content, "name": name})
        return problems, content
    except ValidationError as error:
        details = error.errors(include_url=False)
    usable = copy.deepcopy(content)
    for detail in details:
        path = _path(detail["loc"], content)
        problems.append(_problem(document, detail, path, name))
        _remove(usable, path)
    return problems, usable


def _path(loc: KeyPath, content: Any) -> KeyPath:
    """The part of pydantic's location that stands in the file, and one missing key after it.

    pydantic adds `[key]` for a key that is wrong, and names of its own for alternatives.
    """
    path: list[str | int] = []
    for part in loc:
        inside = isinstance(content, dict) and part in content
        inside = inside or (isinstance(content, list) and isinstance(part, int))
        if not inside:
            return tuple(path) if part == "[key]" else (*path, part)
        path.append(part)
        content = content[part] if not isinstance(content, list) else content[int(part)]
    return tuple(path)


def _problem(document: Document, detail: ErrorDetails, path: KeyPath, name: str) -> Problem:
    kind, loc = detail["type"], detail["loc"]
    if path == ("name",):
        return Problem(document.file, None, None, "", name, detail["msg"].split(", ", 1)[1])
    if kind == "missing":
        return document.problem(path, "is missing")
    if kind == "extra_forbidden":
        known = _known_keys(path, document.content)
        message = f"is not a known key; allowed: {', '.join(known)}"
        near = nearest(str(path[-1]), known)
        return document.problem(path, message, nearest=near, at_key=True)
    if loc and loc[-1] == "[key]":
        message = _message(detail)
        return document.problem(path, message, value=str(path[-1]), at_key=True)
    return document.problem(path, _message(detail), value=_value(detail["input"]))


def _message(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"is not allowed; allowed: {context['expected']}"
    if kind in ("too_short", "string_too_short"):
        return "is empty, and needs at least one entry"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if expected := _EXPECTED.get(kind):
        return f"should be {expected}"
    return detail["msg"][0].lower() + detail["msg"][1:]


def _value(given: object) -> str | None:
    if isinstance(given, dict | list | tuple) or given is None:
        return None if given is not None else "null"
    return str(given).lower() if isinstance(given, bool) else str(given)


def _known_keys(path: KeyPath, content: Mapping[str, Any]) -> list[str]:
    """The keys that the model at `path`'s parent has; of a source, those of its kind first."""
    model: type[BaseModel] = Pipeline
    for part in path[:-1]:
        field = model.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field else None
        if inner is Source:
            inner = source_kind(content.get("source"))
        elif inner is Table:
            inner = table_kind(section(section(content, "tables"), str(path[1])))
        model = inner or model
    keys = sorted(model.model_fields, key=Source.model_fields.__contains__)
    written = [model.model_fields[key].alias or key for key in keys]
    if model is Window:
        # A table that names no kind's own key is taken for one of windows.
        written += Session.model_fields
    return [key for key in written if model is not Pipeline or key not in ("name", "partners")]


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
