"""What a person sees while the demo works: a live status in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status

Tell = Callable[..., None]


class Screen:
    """Steps with how far they are and, once done, how long they took."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, text: str) -> None:
        """A line as it is: not broken, not coloured."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[Tell]:
        """A step. Call what it yields with lines that say how far it is, as often as you like."""
        began = time.monotonic()
        with self._live(title, began) as tell:
            yield tell
        self.console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - began:.1f} s[/]")

    @contextmanager
    def _live(self, title: str, began: float) -> Iterator[Tell]:
        if not self.console.is_terminal:
            self.say(f"… {title}")
            yield _News(self.say)
            return
        with Status(title, console=self.console) as status:

            def update(*lines: str) -> None:
                head = f"{title} [dim]{time.monotonic() - began:.0f} s[/]"
                status.update("\n  ".join([head, *map(escape, lines)]))

            yield update


class _News:
    """Tells each line once, however often it comes."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def __call__(self, *lines: str) -> None:
        for line in lines:
            if line not in self._told:
                self._tell(f"  {line}")
                self._told.add(line)
