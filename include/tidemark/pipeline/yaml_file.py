"""Read a YAML file into plain values, with the place of every key and value in it.

A file is bounded in its bytes, in its depth and in its values, with those that aliases repeat: one
of 330 bytes can stand for billions, and the Dag processor reads all files in one process.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from math import isfinite
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tidemark.pipeline.problems import Problem

KeyPath = tuple[str | int, ...]
# What expressions have and YAML has a meaning of its own for: quotes, backticks, calls, `: `.
_EXPRESSION = re.compile(r":\s.*[('`%&*!|>]")

# A file of 500 columns with a description each has 3,000 values in 60,000 bytes.
MOST_BYTES = 256 * 1024
# Below it each topic has partitions, whose keys are numbers.
_NUMBERED: KeyPath = ("source", "kafka", "starting")
MOST_VALUES = 10_000
DEEPEST = 30


@dataclass(frozen=True)
class Place:
    """A line and a column, both from 1, and whether the text there is as written (no escapes)."""

    line: int
    column: int
    literal: bool = False


@dataclass
class Document:
    """The content of a file, where its keys and values stand, and what is wrong with its YAML."""

    file: str
    content: dict[str, Any] = field(default_factory=dict)
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(
        self,
        path: KeyPath,
        message: str,
        *,
        value: str | None = None,
        nearest: str | None = None,
        at_key: bool = False,
        offset: int = 0,
    ) -> Problem:
        """A problem at `path`, or where its nearest known parent stands.

        `offset` counts characters from the value's beginning: the place inside an expression.
        """
        place = self._place(path, at_key)
        column = place.column + (offset if place.literal else 0) if place else None
        dotted = ".".join(str(part) for part in path)
        line = place.line if place else None
        return Problem(self.file, line, column, dotted, value, message, nearest)

    def take_for(self, path: KeyPath, key: str) -> None:
        """Let the value at `path` be that of another key beside it, as it was meant to be."""
        inside: Any = self.content
        for part in path[:-1]:
            inside = inside[part]
        inside[key] = inside.pop(path[-1])
        for places in (self.keys, self.values):
            for known in [one for one in places if one[: len(path)] == path]:
                places[(*path[:-1], key, *known[len(path) :])] = places[known]

    def _place(self, path: KeyPath, at_key: bool) -> Place | None:
        first, second = (self.keys, self.values) if at_key else (self.values, self.keys)
        for length in range(len(path), 0, -1):
            if found := first.get(path[:length]) or second.get(path[:length]):
                return found
        return None


def read_document(path: Path) -> Document:
    """Read a file; whatever is wrong with it as YAML is in `problems`."""
    document = Document(str(path))
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        document.problems.append(document.problem((), f"cannot be read: {error}"))
        return document
    return parse_document(text, document)


def parse_document(text: str, document: Document) -> Document:
    """Fill `document` from YAML text."""
    if len(text.encode(errors="replace")) > MOST_BYTES:
        message = f"is too large: a pipeline file has at most {MOST_BYTES:,} bytes"
        document.problems.append(document.problem((), message))
        return document
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    try:
        root = yaml.compose(text)
        if isinstance(root, MappingNode):
            document.content = _Walk(document, yaml).mapping(root, ())
            return document
    except _TooMuchError as error:
        problems = [Problem(document.file, error.line, error.column, "", None, str(error))]
        return Document(document.file, problems=problems)
    except MarkedYAMLError as error:
        document.problems.append(_unparsable(document.file, text, error))
        return document
    except YAMLError as error:
        document.problems.append(document.problem((), f"is not YAML: {_first_line(error)}"))
        return document
    what = "is empty" if root is None else "is not a mapping of keys to values"
    document.problems.append(Problem(document.file, 1, None, "", None, f"the file {what}"))
    return document


class _TooMuchError(Exception):
    """More than a file may have; where it is passed."""

    def __init__(self, message: str, mark: Any) -> None:
        super().__init__(message)
        self.line, self.column = mark.line + 1, mark.column + 1


class _BoundedComposer(Composer):
    """Makes nodes of the file's events, as far as there may be so many and so deep ones."""

    nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.parser.peek_event().start_mark
        self.nodes += 1
        _check_count(self.nodes, mark)
        if self.depth >= DEEPEST:
            raise _TooMuchError(f"is nested too deeply: at most {DEEPEST} levels", mark)
        return super().compose_node(parent, index)


def _check_count(number: int, mark: Any) -> None:
    if number > MOST_VALUES:
        message = f"has too many keys and values: at most {MOST_VALUES:,}, with those of aliases"
        raise _TooMuchError(message, mark)


class _Walk:
    """Turns nodes into values, noting places, duplicate keys and keys that are not text."""

    def __init__(self, document: Document, yaml: YAML) -> None:
        self.document = document
        self.scalar = yaml.constructor.construct_object
        self.open: list[Node] = []
        self.nodes = 0

    def value(self, node: Node, path: KeyPath) -> Any:
        literal = isinstance(node, ScalarNode) and node.style is None
        mark = node.start_mark
        # An alias brings the same node again, with all that is in it.
        self.nodes += 1
        _check_count(self.nodes, mark)
        quote = isinstance(node, ScalarNode) and node.style in ("'", '"')
        single_line = mark.line == node.end_mark.line
        self.document.values[path] = Place(
            mark.line + 1, mark.column + 1 + int(quote), (literal or quote) and single_line
        )
        if any(node is parent for parent in self.open):
            self._add(path, "contains itself")
            return None
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return self._sequence(node, path)
        return self._scalar(node, path)

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        self.open.append(node)
        content: dict[str, Any] = {}
        pairs = list(node.value)
        while pairs:
            key_node, value_node = pairs.pop(0)
            named = isinstance(key_node, ScalarNode)
            # What another key says could be as long as what aliases repeat.
            key = str(key_node.value) if named else f"({key_node.id})"
            mark = key_node.start_mark
            place = Place(mark.line + 1, mark.column + 1)
            key = self._whole(key, path, place)
            if key in content:
                first = self.document.keys[(*path, key)].line
                self._add((*path, key), f"stands twice; first in line {first}", place)
                continue
            self.document.keys[(*path, key)] = place
            numbered = path[:-1] == _NUMBERED and str(key_node.tag).endswith(":int")
            if not named or not (numbered or str(key_node.tag).endswith(":str")):
                self._add((*path, key), "is a key that is not text; put it in quotes", place)
            content[key] = self.value(value_node, (*path, key))
            if node.flow_style and (parts := _cut_off(value_node, [_entry(*one) for one in pairs])):
                del pairs[: len(parts) - 1]
                content[key] = self._joined(parts, (*path, key), "{…}")
        self.open.pop()
        return content

    def _sequence(self, node: SequenceNode, path: KeyPath) -> list[Any]:
        self.open.append(node)
        items: list[Any] = []
        nodes = list(node.value)
        while nodes:
            item, place = nodes.pop(0), (*path, len(items))
            items.append(self.value(item, place))
            if node.flow_style and (parts := _cut_off(item, [_plain(one) for one in nodes])):
                del nodes[: len(parts) - 1]
                items[-1] = self._joined(parts, place, "[…]")
        self.open.pop()
        return items

    def _joined(self, parts: list[str], path: KeyPath, within: str) -> str:
        """An expression that commas have cut up, as it was meant: only that is told of it."""
        whole = ", ".join(parts)
        self._add(
            path,
            f"`{parts[0]}` is cut off at a comma, as commas part what stands in {within}; put the "
            f'expression in quotes: "{whole}"',
        )
        return whole

    def _scalar(self, node: Node, path: KeyPath) -> Any:
        try:
            value = self.scalar(node)
        except (YAMLError, ValueError, OverflowError, LookupError, TypeError) as error:
            self._add(path, f"cannot be read as YAML: {_first_line(error)}")
            return None
        if isinstance(value, float) and _loses_digits(str(node.value), value):
            self._add(
                path,
                f"has more digits than a number with a point keeps here: it would be {value!r}. "
                "Write that, or in a check an expression (`amount <= 1.23`), which keeps 38 digits",
            )
        return self._whole(value, path) if isinstance(value, str) else value

    def _whole(self, text: str, path: KeyPath, place: Place | None = None) -> str:
        """An escape can stand for half a character, which nothing can print."""
        whole = text.encode(errors="backslashreplace").decode()
        if whole != text:
            self._add(path, f"has half a character: `{whole[:80]}`", place)
        return whole

    def _add(self, path: KeyPath, message: str, place: Place | None = None) -> None:
        place = place or self.document.values.get(path)
        dotted = ".".join(str(part) for part in path)
        line, column = (place.line, place.column) if place else (None, None)
        self.document.problems.append(
            Problem(self.document.file, line, column, dotted, None, message)
        )


def _loses_digits(text: str, value: float) -> bool:
    """Is a number that is written another one than the float made of it?"""
    with suppress(InvalidOperation):
        return isfinite(value) and Decimal(text.replace("_", "")) != Decimal(repr(value))
    # A form that YAML 1.1 alone has, by sixtieths.
    return False


def _plain(node: Node) -> str | None:
    """The text of a value that is written without quotes."""
    plain = isinstance(node, ScalarNode) and node.style is None
    return str(node.value) if plain else None


def _entry(key: Node, value: Node) -> str | None:
    """The text of an entry in {…} as it was written, where it has no quotes."""
    one, other = _plain(key), _plain(value)
    if one is None or other is None:
        return None
    return f"{one}: {other}" if other else one


def _cut_off(node: Node, after: list[str | None]) -> list[str]:
    """The parts of a text with brackets that end in a later part only; none where it is whole."""
    parts = [_plain(node) or ""]
    depth = _depth(parts[0])
    for text in after:
        if depth <= 0 or text is None:
            break
        parts.append(text)
        depth += _depth(text)
    return parts if depth == 0 and len(parts) > 1 else []


def _depth(text: str) -> int:
    return text.count("(") - text.count(")")


def _unparsable(file: str, text: str, error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    column = mark.column + 1 if mark else None
    lines = text.splitlines()
    shown = lines[mark.line] if mark and mark.line < len(lines) else ""
    tab = "; YAML is indented by spaces, not tabs" if "\t" in shown else ""
    reason = _first_line(error.problem or error)
    quotes = "; if this is an expression, put it in quotes" if _EXPRESSION.search(shown) else ""
    message = f"is not YAML: {reason}{tab}{quotes}"
    return Problem(file, line, column, "", shown.strip() or None, message)


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else "unknown"
