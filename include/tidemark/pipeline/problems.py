"""What is wrong with a pipeline file: each problem with its place, all of a file at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from tidemark.errors import PipelineInvalid

# A report stays readable in a terminal and in Airflow's list of import errors.
MOST_SHOWN = 25
LONGEST_VALUE = 80
# In a URL that a file should not have, as `s3://user:password@bucket`.
_LOGIN = re.compile(r"(?<=://)[^/@\s]*(?::|%3A)\S*@", re.IGNORECASE)
# So many known names are compared with one that is not; a file can have thousands of each.
_MOST_COMPARED = 100


@dataclass(frozen=True)
class Problem:
    """One thing that must change in a file before it can be used.

    `line` and `column` count from 1; None where the place is not known (a key that is missing
    has the place of what it is missing from). `field` is the path of keys, as in
    `tables.spot_10m.measures.mobile`.
    """

    file: str
    line: int | None
    column: int | None
    field: str
    value: str | None
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return f"{place}: {self.text}"

    @property
    def text(self) -> str:
        """The problem without its place."""
        subject = f"{self.field}: " if self.field else ""
        value = f"`{_short(self.value)}`: " if self.value is not None else ""
        hint = f" Did you mean `{self.nearest}`?" if self.nearest else ""
        return f"{subject}{value}{self.message}.{hint}"


class PipelineFileInvalid(PipelineInvalid):
    """A pipeline file cannot be used. `problems` holds all that is wrong, in the file's order."""

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(file, problems)
        self.file = file
        self.problems = problems

    def __str__(self) -> str:
        shown = [_line(problem) for problem in self.problems[:MOST_SHOWN]]
        hidden = len(self.problems) - len(shown)
        more = [f"  … and {hidden} more"] if hidden else []
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        return "\n".join([f"{self.file}: {count}", *shown, *more])


def why_not(check: Callable[..., object], *of: object) -> str | None:
    """What a check says of a value, by a ValueError; None where it lets it pass."""
    try:
        check(*of)
    except ValueError as error:
        return str(error)
    return None


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that `name` was probably meant to be; None when none is near enough.

    `likeness` is difflib's ratio: 1 for equal names, 0 for names with nothing in common.
    """
    by_folded = {candidate.lower(): candidate for candidate in islice(known, _MOST_COMPARED)}
    matches = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=likeness)
    return by_folded[matches[0]] if matches else None


def _line(problem: Problem) -> str:
    places = (("line", problem.line), ("column", problem.column))
    place = ", ".join(f"{word} {number}" for word, number in places if number)
    return f"  {place}: {problem.text}" if place else f"  {problem.text}"


def _short(value: str) -> str:
    flat = _LOGIN.sub("***@", " ".join(value.split()))
    return flat if len(flat) <= LONGEST_VALUE else flat[: LONGEST_VALUE - 1] + "…"
