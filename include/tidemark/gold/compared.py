"""How a table's next generation stands to the one in use, in numbers."""

from __future__ import annotations

from tidemark.storage.result_file import Facts


class Compared(Facts):
    """How the next generation's rows stand to those of gold before, in numbers.

    `same` and `corrected` are closed rows, `first_seen` closed ones without a predecessor, `open`
    all others; `failing` have no row. Of gold's former rows `frozen` stay as they are, and `gone`
    have no successor. `examples` are some corrected ones: identity, and values before → after.
    """

    same: int = 0
    corrected: int = 0
    first_seen: int = 0
    open: int = 0
    failing: int = 0
    frozen: int = 0
    gone: int = 0
    examples: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return self.same + self.corrected + self.first_seen + self.open + self.frozen
