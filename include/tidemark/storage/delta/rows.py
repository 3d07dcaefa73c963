"""How many rows a batch of the ingest had, and what became of them."""

from __future__ import annotations

from pydantic import Field

from tidemark.storage.result_file import Facts


class Rows(Facts):
    """Rows of the run's batches: `read` as counted at the source, the others as judged. The ledger
    holds them against each other. A file that could not be read is one row of rejected, and of
    read."""

    read: int = 0
    accepted: int = 0
    rejected: dict[str, int] = Field(default_factory=dict)

    def __add__(self, other: Rows) -> Rows:
        reasons = self.rejected.keys() | other.rejected.keys()
        return Rows(
            read=self.read + other.read,
            accepted=self.accepted + other.accepted,
            rejected={
                reason: self.rejected.get(reason, 0) + other.rejected.get(reason, 0)
                for reason in sorted(reasons)
            },
        )
