"""The expectations of the installed Great Expectations, by the JSON schemas inside its package.

The package itself is not imported, which takes seconds: a Dag file would pay that at each parse.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidemark.pipeline.problems import nearest

_SCHEMAS = Path("expectations", "core", "schemas")
# What the platform decides: `fail` and `warn` are the severity, and results have one form.
_OURS = frozenset(
    {"batch_id", "catch_exceptions", "id", "metadata", "rendered_content", "result_format"}
    | {"severity", "windows"}
)
_NAMES_A_COLUMN = ("column", "column_A", "column_B")
_NAMES_COLUMNS = ("column_list", "column_set")


@dataclass(frozen=True)
class ExpectationFault:
    """What is wrong: with the class (no argument), or with one of its arguments."""

    argument: str | None
    message: str
    nearest: str | None = None


def expectation_faults(
    name: str, arguments: Mapping[str, Any], columns: Sequence[str]
) -> Iterator[ExpectationFault]:
    """All that is wrong with an expectation over a table of these columns."""
    known = _schemas()
    if not known:
        message = (
            "is an expectation of Great Expectations, which is not installed: install the extra "
            "`quality` of tidemark"
        )
        yield ExpectationFault(None, message)
    elif name not in known:
        message = f"is not an expectation of Great Expectations; there are {len(known)}"
        yield ExpectationFault(None, message, nearest(name, known))
    else:
        schema = json.loads(known[name].read_text(encoding="utf-8"))
        yield from _argument_faults(schema, arguments, columns)


@cache
def _schemas() -> dict[str, Path]:
    """The schemas' files by the names of the classes; none where the package is not installed."""
    spec = find_spec("great_expectations")
    folders = spec.submodule_search_locations if spec else None
    files = sorted(Path(folders[0], _SCHEMAS).glob("*.json")) if folders else []
    return {file.stem: file for file in files}


def _argument_faults(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], columns: Sequence[str]
) -> Iterator[ExpectationFault]:
    # It comes with Great Expectations, and no pipeline without an expectation needs it.
    from jsonschema import Draft7Validator  # type: ignore[import-untyped]  # it has no stubs

    allowed = [name for name in schema["properties"] if name not in _OURS]
    for name in arguments:
        if name not in allowed:
            message = f"is not an argument of it; allowed: {', '.join(allowed)}"
            yield ExpectationFault(name, message, nearest(name, allowed))
    for name in schema.get("required", ()):
        if name not in arguments:
            yield ExpectationFault(name, "is missing")
    for name in [name for name in arguments if name in allowed]:
        rule = {**schema["properties"][name], "definitions": schema.get("definitions", {})}
        if error := next(Draft7Validator(rule).iter_errors(arguments[name]), None):
            yield ExpectationFault(name, f"does not fit the expectation: {error.message}")
        else:
            yield from _column_faults(name, arguments[name], columns)


def _column_faults(argument: str, value: Any, columns: Sequence[str]) -> Iterator[ExpectationFault]:
    named = [value] if argument in _NAMES_A_COLUMN else []
    named += value if argument in _NAMES_COLUMNS else []
    for name in named:
        if name not in columns:
            message = f"`{name}` is not a column of gold; columns: {', '.join(columns)}"
            yield ExpectationFault(argument, message, nearest(str(name), columns))
