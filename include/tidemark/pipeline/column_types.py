"""The types that a column of a source can have: Spark's DDL types that JSON can carry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tidemark.pipeline.names import folded
from tidemark.pipeline.problems import nearest

SIMPLE = (
    *("string", "boolean", "tinyint", "byte", "smallint", "short", "int", "integer"),
    *("bigint", "long", "float", "real", "double", "decimal", "dec", "numeric"),
    *("date", "timestamp", "binary"),
)
NESTED = ("array", "map", "struct")
ALLOWED = "string, boolean, byte, short, int, long, float, double, decimal(p,s), date, timestamp, "
ALLOWED += "binary, array<…>, map<string,…>, struct<name: type, …>"

# Of a type's text, and of types within types.
LONGEST, DEEPEST = 20_000, 20

_SAME_TYPES = {"bigint": "long", "integer": "int", "smallint": "short", "tinyint": "byte"}
_SAME_TYPES |= {"real": "float", "dec": "decimal", "numeric": "decimal"}
# The most digits of a whole number.
_DIGITS = {"byte": 3, "short": 5, "int": 10, "long": 19}
_WHOLE = tuple(_DIGITS)
# A type, and no field's name.
_DECIMAL = re.compile(r"(?<!`)\bdecimal\b(?!:)(?:\((\d+)(?:,(\d+))?\))?")

_TOKEN = re.compile(r"\s*(`[^`]+`|\w+|'[^']*'|[<>(),:])")
_DECIMALS = ("decimal", "dec", "numeric")


@dataclass(frozen=True)
class TypeText:
    """A type as written in a pipeline file, in lower case, and whether it may be null."""

    type: str
    nullable: bool


def parse_type(text: str) -> TypeText:
    """Read `long`, `long not null`, `array<struct<a: int>>`; ValueError says what is wrong."""
    if len(text) > LONGEST:
        raise ValueError(f"is too long for a type: {len(text):,} characters, at most {LONGEST:,}")
    reader = _TypeReader(_tokens(text), text)
    spark_type = reader.read_type()
    nullable = not reader.read_not_null()
    if reader.tokens:
        more = " ".join(reader.tokens)
        raise ValueError(f"has `{more}` after the type; write it as in `long not null`")
    return TypeText(spark_type, nullable)


def same_field(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names among a struct's that Spark does not tell apart."""
    found: dict[str, str] = {}
    for name in names:
        if other := found.get(folded(name.strip("`"))):
            return other, name
        found[folded(name.strip("`"))] = name
    return None


def same_type(one: str, other: str) -> bool:
    """Are two types one to Spark, which knows some by several names?"""
    return _plain(one) == _plain(other)


def is_wider(kind: str, than: str) -> bool:
    """Can each value of a type be had as one of another, which is not the same, without a change?

    A `double` has a `long` up to 2^53 only, which the values have to tell.
    """
    old, new = _plain(than), _plain(kind)
    if old in _WHOLE:
        if new in _WHOLE:
            return _WHOLE.index(new) > _WHOLE.index(old)
        return new == "double" or _before_point(new) >= _DIGITS[old]
    if (old, new) in (("float", "double"), ("date", "timestamp")):
        return True
    scales = _scale(old), _scale(new)
    is_decimal = _DECIMAL.fullmatch(old) and _DECIMAL.fullmatch(new) and old != new
    return bool(is_decimal) and scales[1] >= scales[0] and _before_point(new) >= _before_point(old)


def _plain(text: str) -> str:
    """One spelling of a type, decimals with both numbers: Spark's default has 10 digits, and none
    after the point. The names of fields in a struct stay as they are."""
    text = re.sub(r"\w+(?!\w*:)", lambda word: _SAME_TYPES.get(word[0], word[0]), text)
    return _DECIMAL.sub(lambda kind: f"decimal({kind[1] or 10},{kind[2] or 0})", text)


def _before_point(kind: str) -> int:
    """The digits of a decimal before its point; -1 of another type."""
    found = _DECIMAL.fullmatch(kind)
    return -1 if found is None else int(found[1]) - int(found[2])


def _scale(kind: str) -> int:
    found = _DECIMAL.fullmatch(kind)
    return 0 if found is None else int(found[2])


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"is not a type at `{text[position:].strip()}`; allowed: {ALLOWED}")
        tokens.append(match[1])
        position = match.end()
    return tokens


class _TypeReader:
    """Takes a type off the front of its tokens."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.depth = 0

    def read_type(self) -> str:
        word = self._take().lower()
        if word in _DECIMALS:
            return word + self._precision()
        if word in SIMPLE:
            return word
        if word not in NESTED:
            self._refuse(word)
        self._expect("<")
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"is nested too deeply: at most {DEEPEST} types within each other")
        inside = {"array": self.read_type, "map": self._map, "struct": self._fields}[word]()
        self._expect(">")
        self.depth -= 1
        return f"{word}<{inside}>"

    def read_not_null(self) -> bool:
        if [token.lower() for token in self.tokens[:2]] != ["not", "null"]:
            return False
        del self.tokens[:2]
        return True

    def _map(self) -> str:
        key = self.read_type()
        if key != "string":
            raise ValueError(f"a map read from JSON has keys of type string, not {key}")
        self._expect(",")
        return f"{key},{self.read_type()}"

    def _fields(self) -> str:
        fields = [self._field()]
        while self.tokens and self.tokens[0] == ",":
            self._take()
            fields.append(self._field())
        names = [name for name, _ in fields]
        if twice := same_field(names):
            raise ValueError(
                f"has a struct with two fields `{twice[0]}` and `{twice[1]}`; Spark takes them "
                "for one"
            )
        return ",".join(f"{name}:{kind}" for name, kind in fields)

    def _field(self) -> tuple[str, str]:
        name = self._take()
        if not re.fullmatch(r"\w+|`[^`]+`", name):
            raise ValueError(
                f"has a struct with a field `{name}`; write its name in backticks, as in "
                "struct<`a b`: int>"
            )
        if self.tokens and self.tokens[0] == ":":
            self._take()
        return name, self.read_type()

    def _precision(self) -> str:
        if not self.tokens or self.tokens[0] != "(":
            return ""
        self._take()
        numbers = [self._number()]
        if self.tokens and self.tokens[0] == ",":
            self._take()
            numbers.append(self._number())
        self._expect(")")
        if not 1 <= numbers[0] <= 38 or numbers[-1] > numbers[0]:
            raise ValueError("a decimal has 1 to 38 digits, and no more of them after the point")
        return f"({','.join(map(str, numbers))})"

    def _number(self) -> int:
        token = self._take()
        return int(token) if token.isdecimal() else self._refuse(token)

    def _take(self) -> str:
        if not self.tokens:
            raise ValueError(f"ends before its type is complete; allowed: {ALLOWED}")
        return self.tokens.pop(0)

    def _expect(self, token: str) -> None:
        if not self.tokens or self.tokens[0] != token:
            found = f"`{self.tokens[0]}`" if self.tokens else "the end"
            raise ValueError(f"should go on with `{token}` where it has {found}")
        self.tokens.pop(0)

    def _refuse(self, word: str) -> NoReturn:
        near = nearest(word, (*SIMPLE, *NESTED))
        hint = f" (nearest: `{near}`)" if near else ""
        raise ValueError(f"`{word}` is not a type here{hint}; allowed: {ALLOWED}")
