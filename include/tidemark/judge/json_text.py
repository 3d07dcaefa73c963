r"""One line as strict JSON (RFC 8259), with what Python's reader passes over told apart.

`json` of the standard library reads the grammar; hooks keep the text of each number, refuse
`NaN` and `Infinity`, and see a name that stands twice in an object. Told here besides: text that
is no UTF-8, half of a surrogate pair (`\ud800` is no character), and depth beyond a limit, so that
no line can exhaust a stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any, NoReturn

# Objects and arrays within each other, the line's own object counted.
DEEPEST = 200

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_OPENING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
_ONE_OBJECT = "not exactly one JSON object"
# As Java's \s has it, and as JSON has it.
_BLANKS = b" \t\n\x0b\f\r"
_JSON_BLANKS = " \t\n\r"


# A number as JSON writes it.
JSON_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
# A number, as its text in the line; no other part is of this type. The garbage collector follows
# each object of a class of one's own, and none of these.
Number = bytes


class NotAnObject(ValueError):
    """The line is not one JSON object; the text says why."""


class LineReader:
    """Reads lines, one at a time; not to be shared by threads."""

    def __init__(self) -> None:
        self._twice: list[bool] = []
        self._decoder = object_decoder(self._object)

    def read(self, line: bytes) -> dict[str, Any]:
        """The object's fields, in the line's order: Number, str, bool, None, list and dict.

        NotAnObject where the line is anything else.
        """
        self._twice.clear()
        text, value = parse_object(line, self._decoder)
        if "\\u" in text and _has_lone_surrogate(text):
            raise NotAnObject("holds half of a surrogate pair")
        if self._twice:
            # The line's own object is the last that ends.
            where = "the object" if self._twice[-1] else "a nested object"
            raise NotAnObject(f"a field stands twice in {where}")
        return value

    def part(self, text: str, start: int) -> tuple[Any, int]:
        """The value that begins at this place of a line's text, and where it ends. NotAnObject
        where none does, or one for which the line is malformed."""
        self._twice.clear()
        try:
            value, end = self._decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise NotAnObject(_ONE_OBJECT) from None
        if text.count("{", start, end) + text.count("[", start, end) >= DEEPEST:
            raise NotAnObject("may be too deep")
        if text.find("\\u", start, end) >= 0 and _has_lone_surrogate(text[start:end]):
            raise NotAnObject("holds half of a surrogate pair")
        if self._twice:
            raise NotAnObject("a field stands twice in a nested object")
        return value, end

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            self._twice.append(True)
        elif self._twice:
            self._twice.append(False)
        return fields


def object_decoder(hook: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    """Reads the grammar; `hook` makes an object of its fields."""
    return json.JSONDecoder(
        object_pairs_hook=hook,
        parse_int=str.encode,
        parse_float=str.encode,
        parse_constant=_refuse,
    )


def parse_object(line: bytes, decoder: json.JSONDecoder) -> tuple[str, dict[str, Any]]:
    """The line's text, and the fields of its object by the decoder. NotAnObject where the line is
    anything else."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise NotAnObject("not valid UTF-8") from None
    if not text.startswith("{"):
        _check_start(line, text)
        text = text.strip(_JSON_BLANKS)
    if text.count("{") + text.count("[") > DEEPEST:
        _check_depth(text)
    try:
        value, end = decoder.raw_decode(text)
    except ValueError:
        raise NotAnObject(_ONE_OBJECT) from None
    if type(value) is not dict or text[end:].strip(_JSON_BLANKS):
        raise NotAnObject(_ONE_OBJECT)
    return text, value


def json_text(value: Any) -> str:
    """A value of a line as JSON again, without blanks; numbers as they stood there."""
    kind = type(value)
    if kind is Number:
        return str(value, "utf-8")
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        fields = [f"{encode_basestring(name)}:{json_text(part)}" for name, part in value.items()]
        return "{" + ",".join(fields) + "}"
    if kind is list:
        return "[" + ",".join([json_text(item) for item in value]) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _check_start(line: bytes, text: str) -> None:
    if not line.strip(_BLANKS):
        raise NotAnObject("blank line")
    if text.startswith("\ufeff"):
        raise NotAnObject("begins with a byte order mark (BOM)")


def _check_depth(text: str) -> None:
    depth = 0
    for token in _tokens_of_depth(text):
        depth += 1 if token in "[{" else -1
        if depth > DEEPEST:
            raise NotAnObject(f"more than {DEEPEST} objects and arrays within each other")


def _tokens_of_depth(text: str) -> Sequence[str]:
    """Opening and closing brackets outside of texts."""
    return [token for token in _OPENING.findall(text) if token[0] != '"']


def _has_lone_surrogate(text: str) -> bool:
    """Escapes stand in texts only, where the grammar is kept."""
    before_ended, high = -1, False
    for escape in _ESCAPE.finditer(text):
        unit = int(escape[1], 16) if escape[1] else 0
        is_low = 0xDC00 <= unit <= 0xDFFF
        paired = high and is_low and escape.start() == before_ended
        if (high and not paired) or (is_low and not paired):
            return True
        high, before_ended = 0xD800 <= unit <= 0xDBFF, escape.end()
    return high
