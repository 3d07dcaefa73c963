"""What a key did until nothing came for a while: how many events, and the sum of their amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class Episode:
    """What came so far."""

    events: int = 0
    amount: int = 0


class Episodes:
    """One output for each episode, when it ends."""

    def start(self) -> Episode:
        return Episode()

    def step(self, state: Episode, row: Mapping[str, Any]) -> None:
        state.events += 1
        state.amount += row["amount"]

    def on_timeout(self, state: Episode) -> Iterator[dict[str, Any]]:
        yield {"events": state.events, "amount": state.amount}
