"""A difference between two contents of a pipeline's file, and what may be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Why a change of what the ingest reads and accepts is safe, as a rule.
FROM_NOW = "It holds for rows that are read from now on; bronze and rejects stay as they are"


class ChangeVerdict(StrEnum):
    """What becomes of a change when the pipeline runs."""

    SAFE = "safe"
    TO_ACCEPT = "needs to be accepted"
    NO_EFFECT = "safe, without effect until a new generation"
    NEW_GENERATION = "needs a new generation"
    NOT_ALLOWED = "not allowed"

    @property
    def refused(self) -> bool:
        """Is it refused, whatever anybody says?"""
        return self in (ChangeVerdict.NEW_GENERATION, ChangeVerdict.NOT_ALLOWED)


@dataclass(frozen=True)
class Difference:
    """One change: of which query, what, from what to what, the verdict, and why that one.

    `accepted` says why and by whom, where somebody has accepted this very change.
    """

    query: str
    what: str
    before: str
    after: str
    verdict: ChangeVerdict
    reason: str
    accepted: str | None = None

    @property
    def refused(self) -> bool:
        """Does a run end before it writes anything?"""
        return self.is_to_be_accepted or self.verdict.refused

    @property
    def is_to_be_accepted(self) -> bool:
        """Does a run wait for somebody to accept it?"""
        return self.verdict is ChangeVerdict.TO_ACCEPT and self.accepted is None

    def __str__(self) -> str:
        change = f"{self.query}: {self.what}: {self.before} → {self.after}"
        verdict = f"accepted: {self.accepted}" if self.accepted else self.verdict
        return f"{change}: {verdict}. {self.reason}"
