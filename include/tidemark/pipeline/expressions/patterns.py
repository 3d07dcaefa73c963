"""Regular expressions within an expression, which are Java's, and the patterns of LIKE: they are
written out, and what is wrong with one.

One that comes from a row could take the time or the stack of a run: who sends rows would decide.

Without a JVM only its grammar can be told: brackets, repetitions, groups and escapes. What takes
knowledge of Java's tables (`\\p{…}`, names of groups that are referred to, how far a look-behind
reaches) is left to Java itself, which reads every pattern when a run plans its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from tidemark.pipeline.expressions.regular_expressions import why_refused

Node = exp.Expr
_WITH_PATTERN = (
    *(exp.RegexpLike, exp.RegexpReplace, exp.RegexpExtract, exp.RegexpExtractAll),
    *(exp.RegexpCount, exp.RegexpInstr, exp.RegexpSubstr, exp.RegexpSplit),
)
_LIKE = (exp.Like, exp.ILike)
# Where a pattern stands among the arguments, by node and by name. parse_url looks for its key by a
# regular expression that has it as it is.
_IN: dict[type[Node], tuple[str, ...]] = {
    **dict.fromkeys((*_WITH_PATTERN, *_LIKE), ("expression",)),
    exp.StrToMap: ("pair_delim", "key_value_delim"),
    exp.ParseUrl: ("key",),
}
_BY_NAME = {"regexp": 1, "rlike": 1, "regexp_like": 1, "parse_url": 2, "try_parse_url": 2}
# What may stand around texts; the first two make one of them.
_OF_TEXTS = (exp.Concat, exp.DPipe, exp.Any, exp.All, exp.Paren, exp.Tuple)
_NOT_WRITTEN_OUT = (
    "has a pattern that is not written out: one of a row could take the time or the stack of a "
    "run. Write it as a text, or ask by startswith, endswith, contains, instr or split_part, which "
    "take text as it is"
)
_REPETITION = re.compile(r"\{(\d+)(,(\d*))?\}")
_GROUP = re.compile(r"\?(?:[:=!>]|<[=!]|<[A-Za-z][A-Za-z0-9]*>|([idmsuxU]*(?:-[idmsuxU]*)?)[:)])")
# Letters that mean nothing after a backslash; Java keeps them for later.
_NO_ESCAPES = frozenset("CFgiIjJKlLmMoOqTUyY")


def pattern_faults(root: Node) -> Iterator[tuple[Node, str]]:
    """Each pattern that a row brings, that Java would refuse or that no run may match, with the
    reason."""
    for node, given in _patterns(root):
        texts = _texts(given)
        if texts is None:
            yield node, _NOT_WRITTEN_OUT
        if texts is None or isinstance(node, _LIKE):
            continue
        for pattern in texts:
            if reason := why_no_pattern(pattern):
                yield node, f"has the pattern '{pattern}', which Java cannot read: {reason}"
            elif reason := why_refused(pattern):
                yield node, f"has the pattern '{pattern}', which {reason}"


def literal_patterns(root: Node) -> Iterator[tuple[Node, str]]:
    """Regular expressions that are written out, with the call that they stand in."""
    for node, given in _patterns(root):
        if not isinstance(node, _LIKE):
            yield from ((node, text) for text in _texts(given) or ())


def _patterns(root: Node) -> Iterator[tuple[Node, Node]]:
    """What each call takes for its pattern."""
    for node in root.walk():
        given = [node.args.get(name) for name in _IN.get(type(node), ())]
        if isinstance(node, exp.Anonymous):
            place = _BY_NAME.get(str(node.this).lower())
            given = node.expressions[place : place + 1] if place else []
        yield from ((node, one) for one in given if isinstance(one, exp.Expr))


def _texts(given: Node) -> list[str] | None:
    """One text that is written out, or several as in `rlike any ('a', 'b')`; None where one is
    not."""
    if isinstance(given, exp.Literal | exp.RawString):
        return [str(given.this)]
    of_texts = isinstance(given, _OF_TEXTS) or str(given.this).lower() in ("all", "any", "some")
    texts = [_texts(part) for part in given.iter_expressions()] if of_texts else [None]
    found = [text for several in texts if several is not None for text in several]
    if None in texts:
        return None
    return ["".join(found)] if isinstance(given, exp.Concat | exp.DPipe) else found


def why_no_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern's grammar; None where it is good, or nobody can tell here."""
    try:
        return _Reader(pattern).read()
    except IndexError:
        return "it ends in the middle"
    except _NobodyCanTell:
        return None


class _NobodyCanTell(Exception):
    """What follows is read by rules that are not these."""


class _Reader:
    """Goes through a pattern from its start."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.open_groups = 0

    def read(self) -> str | None:
        repeatable = False
        while self.place < len(self.pattern):
            character = self.pattern[self.place]
            if character in "*+?{":
                if fault := self._repetition(repeatable):
                    return fault
                repeatable = False
                continue
            self.place += 1
            fault = None
            if character == "\\":
                fault = self._escape()
            elif character == "[":
                fault = self._class()
            elif character == "(":
                self.open_groups += 1
                fault = self._group()
            elif character == ")":
                self.open_groups -= 1
                fault = "a `)` closes nothing" if self.open_groups < 0 else None
            if fault:
                return fault
            repeatable = character not in "(|"
        return "a `(` is not closed" if self.open_groups else None

    def _repetition(self, repeatable: bool) -> str | None:
        character = self.pattern[self.place]
        found = _REPETITION.match(self.pattern, self.place)
        if character == "{" and not found:
            return "a `{` begins no repetition as in `{2,5}`; for the sign itself write `\\\\{`"
        if not repeatable and character != "{":
            return f"a `{character}` repeats nothing"
        if found and found[3] and int(found[3]) < int(found[1]):
            return f"`{found[0]}` ends before it begins"
        self.place = found.end() if character == "{" and found else self.place + 1
        # Reluctant or possessive.
        if self.pattern[self.place : self.place + 1] in ("?", "+"):
            self.place += 1
        return None

    def _escape(self) -> str | None:
        character = self.pattern[self.place]
        self.place += 1
        if character == "Q":
            end = self.pattern.find("\\E", self.place)
            self.place = len(self.pattern) if end < 0 else end + 2
        elif character in _NO_ESCAPES:
            return f"`\\{character}` means nothing"
        elif character in "pPNx" and self.pattern[self.place : self.place + 1] == "{":
            end = self.pattern.find("}", self.place)
            if end < 0:
                return f"`\\{character}{{` is not closed"
            self.place = end + 1
        elif character == "k" and self.pattern[self.place : self.place + 1] != "<":
            return "`\\k` needs a group's name, as in `\\k<name>`"
        elif character == "c":
            # The next sign belongs to it, but not where it begins a quotation.
            raise _NobodyCanTell
        return None

    def _group(self) -> str | None:
        if self.pattern[self.place : self.place + 1] != "?":
            return None
        found = _GROUP.match(self.pattern, self.place)
        if not found:
            return f"`({self.pattern[self.place : self.place + 3]}` begins no kind of group"
        if "x" in (found[1] or ""):
            # Comments, in which brackets stand for themselves.
            raise _NobodyCanTell
        self.place = found.end()
        if found[0].endswith(")"):
            self.open_groups -= 1
        return None

    def _class(self) -> str | None:
        """All up to the `]` of a class that has begun."""
        if self.pattern[self.place : self.place + 1] == "^":
            self.place += 1
        first = True
        while self.place < len(self.pattern):
            character = self.pattern[self.place]
            self.place += 1
            if character == "]" and not first:
                return None
            fault = None
            if character == "\\":
                fault = self._escape()
            elif character == "[":
                fault = self._class()
            if fault:
                return fault
            first = False
        return "a `[` is not closed"
