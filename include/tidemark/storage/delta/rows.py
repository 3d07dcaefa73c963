"""How many rows a batch of the ingest had, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from pydantic import Field

from tidemark.storage.result_file import Facts

Counted = TypeVar("Counted", int, "RecordCounts")


class RecordCounts(Facts):
    """Records that became no line to judge by themselves, and lines that came of arrays.

    `other`: not of this pipeline (`when`). `without_elements`: the array (`explode`) is empty, null
    or missing. `exploded`: it became lines, which are `elements`.
    """

    other: int = 0
    without_elements: int = 0
    exploded: int = 0
    elements: int = 0

    @property
    def further(self) -> int:
        """How many more lines there are to judge than records; below 0: fewer."""
        return self.elements - self.exploded - self.without_elements - self.other

    @property
    def label(self) -> str:
        """For people."""
        others = f"{self.other:,} records of other pipelines" if self.other else ""
        arrays = (
            f"{self.exploded:,} records exploded into {self.elements:,} rows, "
            f"{self.without_elements:,} without elements"
        )
        has_arrays = self.exploded or self.without_elements
        return "; ".join([*([others] if others else []), *([arrays] if has_arrays else [])])

    def __add__(self, more: RecordCounts) -> RecordCounts:
        return RecordCounts(
            other=self.other + more.other,
            without_elements=self.without_elements + more.without_elements,
            exploded=self.exploded + more.exploded,
            elements=self.elements + more.elements,
        )


class Rows(Facts):
    """Rows of the run's batches: `read` are records as counted at the source, the others as
    judged. The ledger holds them against each other. A file that could not be read is one row of
    rejected, and of read. `records`: those that are no row by themselves; None: each is one.
    `counted`: accepted rows by the rules that count them.

    Of a source that numbers its messages: `offsets` of the ranges that were read, and how many of
    them no message has. None: the source numbers none, or a batch was repeated after its input had
    changed."""

    read: int = 0
    accepted: int = 0
    rejected: dict[str, int] = Field(default_factory=dict)
    offsets: int | None = None
    without_record: int | None = None
    records: RecordCounts | None = None
    counted: dict[str, int] = Field(default_factory=dict)

    @property
    def judged(self) -> int:
        """How many rows were judged: accepted or rejected."""
        return self.accepted + sum(self.rejected.values())

    def at_offsets(self, offsets: int | None, messages: int) -> Rows:
        """The rows of so many messages at so many offsets; None: there are none."""
        if offsets is None:
            return self
        without = offsets - messages
        return self.model_copy(update={"offsets": offsets, "without_record": without})

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            read=self.read + other.read,
            accepted=self.accepted + other.accepted,
            rejected=by_name(self.rejected, other.rejected),
            counted=by_name(self.counted, other.counted),
            offsets=_sum(self.offsets, other.offsets),
            without_record=_sum(self.without_record, other.without_record),
            records=_sum(self.records, other.records),
        )


def by_name(*counts: Mapping[str, int]) -> dict[str, int]:
    """The sums of counts, in the order of their names."""
    total = sum(map(Counter, counts), Counter[str]())
    return dict(sorted(total.items()))


def counts_text(counts: Mapping[str, int]) -> str:
    """Counts with their names, for people."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _sum(one: Counted | None, other: Counted | None) -> Counted | None:
    """Of what is known."""
    return other if one is None else one if other is None else one + other
