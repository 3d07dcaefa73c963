"""Regular expressions whose time or stack may have no end on some text.

An engine that goes back (Java's, Python's) tries each way in which a pattern can fit. A repetition
over a choice, as in `(a+)+` or `(?:a|b)*`, doubles the ways with each character, or takes a part of
Java's stack for each (`java.util.regex.Pattern.Loop`; a group without a choice is a `GroupCurly`,
which takes none). Told by the pattern's grammar alone, as Java, Python and RE2 share it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

# Ways through a repetition with an end, as in `(\d{1,3}\.){3}`: no text needs more steps from a
# place of its own. `(:[0-9a-f]{1,4}){7}` has 16,384.
_MOST_WAYS = 65_536
_REPETITION = re.compile(r"([*+?])|\{(\d*)(?:(,)(\d*))?\}")
# What a group begins with. Only `(?:`, its flags, a name or a look-around; else it is plain.
_GROUP = re.compile(
    r"\?(?:P?<(?P<name>[A-Za-z][A-Za-z0-9_]*)>|<?[=!]|[:>]|(?P<flags>[a-zA-Z]*(?:-[a-zA-Z]*)?)(?P<end>[:)]))"
)
_DEEPEST = 50
_NAMED_ESCAPE = re.compile(r"[pPxNkgo](?:\{[^}]*\}|<[^>]*>)")
_INSTEAD = (
    "on some text that takes time without end, or more stack than there is. Write single signs as "
    "a class, as in `[ab]*`, take the inner repetition out, or say how often, as in `(?:a|b){1,5}`"
)


def why_refused(pattern: str) -> str | None:
    """Why no run may match this pattern; None where its stack has a bound and its time is at most
    a power of the text's length, with one more for each repetition beside another: `a*a*b` takes
    the square or the cube of it.

    Of a pattern that no engine can read, nothing is said that could be relied upon.
    """
    try:
        _Ways(pattern).alternatives()
    except _Refused as refused:
        return str(refused)
    return None


def count_groups(pattern: str) -> int | None:
    """How many groups a pattern captures; None where nobody can tell here."""
    found = _Ways(pattern)
    try:
        found.alternatives()
    except _Refused:
        return None
    return found.groups


class _Refused(Exception):
    """The reason is its text."""


class _Ways:
    """Goes through a pattern from its start, and counts in how many ways each part can fit."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.depth = 0
        self.groups = 0

    def alternatives(self, *, in_group: bool = False) -> float:
        """The ways through all up to the `)` of the group, or to the end."""
        ways, this = 0.0, 1.0
        while (sign := self._next()) and not (in_group and sign == ")"):
            if sign == "|":
                ways, this = ways + this, 1.0
            else:
                this *= self._repeated(self.place - 1, self._atom(sign))
        return ways + this

    def _next(self) -> str:
        """The sign that is here, which is passed; empty at the end."""
        sign = self.pattern[self.place : self.place + 1]
        self.place += len(sign)
        return sign

    def _atom(self, sign: str) -> float:
        if sign == "(":
            return self._group()
        if sign == "[":
            self._class()
        elif sign == "\\":
            return self._escape()
        return 1.0

    def _group(self) -> float:
        found = _GROUP.match(self.pattern, self.place)
        self.groups += found is None or found["name"] is not None
        if found:
            self.place = found.end()
            if "x" in (found["flags"] or "").partition("-")[0]:
                raise _Refused("has the flag `x`, under which nobody here can tell its groups")
            if found["end"] == ")":
                return 1.0
        with self._deeper():
            return self.alternatives(in_group=True)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _Refused(f"has groups or classes within each other, more than {_DEEPEST} deep")
        yield
        self.depth -= 1

    def _class(self) -> None:
        """All up to the `]` of a class, which may hold others; a `]` at its start is a sign."""
        if self.pattern[self.place : self.place + 1] == "^":
            self.place += 1
        start = self.place
        while sign := self._next():
            if sign == "]" and self.place - 1 > start:
                return
            if sign == "[":
                with self._deeper():
                    self._class()
            elif sign == "\\":
                self._escape()

    def _escape(self) -> float:
        """The ways through what follows a backslash."""
        if found := _NAMED_ESCAPE.match(self.pattern, self.place):
            self.place = found.end()
            return 1.0
        letter = self._next()
        if letter == "c":
            raise _Refused("has `\\c`, whose next sign Java reads by rules of its own")
        if letter == "Q":
            end = self.pattern.find("\\E", self.place)
            self.place = len(self.pattern) if end < 0 else end + 2
        # An end of a line is one sign or two, what is seen as one sign any number of them.
        return 2.0 if letter in ("R", "X") else 1.0

    def _repeated(self, start: int, ways: float) -> float:
        """The ways through an atom with the repetitions behind it."""
        while found := _REPETITION.match(self.pattern, self.place):
            least, most = _times(found)
            self.place = found.end()
            kind = self.pattern[self.place : self.place + 1]
            self.place += kind in ("?", "+")
            # A possessive one never goes back, and takes no stack.
            if kind != "+" and ways > 1 < most and most * math.log(ways) > math.log(_MOST_WAYS):
                text = self.pattern[start : self.place]
                raise _Refused(f"has `{text}`, a repetition over a choice: {_INSTEAD}")
            ways = _ways_of(ways, least, most)
        return ways


def _times(found: re.Match[str]) -> tuple[float, float]:
    """How often at least, and at most."""
    if found[1]:
        return {"*": (0.0, math.inf), "+": (1.0, math.inf), "?": (0.0, 1.0)}[found[1]]
    least = float(found[2] or 0)
    if not found[3]:
        return least, least
    return least, float(found[4]) if found[4] else math.inf


def _ways_of(ways: float, least: float, most: float) -> float:
    if most == math.inf or ways == math.inf:
        return math.inf if most else 1.0
    if ways == 1:
        return max(most - least, 0) + 1
    # It is small: else it was refused, or is possessive.
    within = math.exp(min(most * math.log(ways), 700))
    return within * (max(most - least, 0) + 1)
