"""How many rows a batch of the ingest had, and what became of them."""

from __future__ import annotations

from pydantic import Field

from tidemark.storage.result_file import Facts


class Rows(Facts):
    """Rows of the run's batches: `read` as counted at the source, the others as judged. The ledger
    holds them against each other. A file that could not be read is one row of rejected, and of
    read.

    Of a source that numbers its messages: `offsets` of the ranges that were read, and how many of
    them no message has. None: the source numbers none, or a batch was repeated after its input had
    changed."""

    read: int = 0
    accepted: int = 0
    rejected: dict[str, int] = Field(default_factory=dict)
    offsets: int | None = None
    without_record: int | None = None

    def at_offsets(self, offsets: int | None, messages: int) -> Rows:
        """The rows of so many messages at so many offsets; None: there are none."""
        if offsets is None:
            return self
        without = offsets - messages
        return self.model_copy(update={"offsets": offsets, "without_record": without})

    def __add__(self, other: Rows) -> Rows:
        reasons = self.rejected.keys() | other.rejected.keys()
        return Rows(
            read=self.read + other.read,
            accepted=self.accepted + other.accepted,
            rejected={
                reason: self.rejected.get(reason, 0) + other.rejected.get(reason, 0)
                for reason in sorted(reasons)
            },
            offsets=_sum(self.offsets, other.offsets),
            without_record=_sum(self.without_record, other.without_record),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    """Of what is known."""
    known = [number for number in (one, other) if number is not None]
    return sum(known) if known else None
