"""What a person sees while the demo works: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

Tell = Callable[[str], None]


class Screen:
    """Steps with what they are at and, once done, how long they took."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Tell]:
        """A step; call what it yields with how far it is, as often as you like."""
        began = time.monotonic()
        with self._live(title, began) as tell:
            yield tell
        self.console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - began:.1f} s[/]")

    @contextmanager
    def _live(self, title: str, began: float) -> Iterator[Tell]:
        if not self.console.is_terminal:
            self.console.print(f"… {title}")
            yield _Changes(lambda text: self.console.print(f"  {title}: {text}", highlight=False))
            return
        with Status(title, console=self.console) as status:
            yield lambda text: _update(status, title, text, time.monotonic() - began)


class _Changes:
    """Tells only what differs from what was told before."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._before = ""

    def __call__(self, text: str) -> None:
        if text != self._before:
            self._before = text
            self._tell(text)


def _update(status: Status, title: str, text: str, seconds: float) -> None:
    status.update(f"{title} [dim]{seconds:.0f} s[/] {text}")
