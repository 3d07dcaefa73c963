"""Differences between gold and bronze, bounded: counts, and five examples of each kind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pydantic import Field

from tidemark.storage.result_file import Facts

EXAMPLES = 5

EQUAL = "equal"
DIFFERENT = "different"
ONLY_IN_GOLD = "only_in_gold"
ONLY_IN_BRONZE = "only_in_bronze"
DUPLICATED = "duplicated"
# In neither: bronze has rows of it, but a measure of them cannot be computed.
FAILING = "failing"
DIFFERING = (DIFFERENT, ONLY_IN_GOLD, ONLY_IN_BRONZE, DUPLICATED)


class Example(Facts):
    """One window: its keys, its values in gold and by bronze. None: it is not there at all."""

    window_start: datetime
    keys: dict[str, Any]
    gold: dict[str, Any] | None
    bronze: dict[str, Any] | None


class Differences(Facts):
    """How many windows gold holds, how many bronze gives, and how many differ, by kind.

    `duplicated` windows stand in gold more than once, whatever their values are. `failing` ones are
    not in gold, and a measure of them cannot be computed: they do not differ. `bronze_rows` is the
    sum of `rows` over bronze's windows, failing ones among them.
    """

    gold_windows: int = 0
    bronze_windows: int = 0
    bronze_rows: int = 0
    equal: int = 0
    different: int = 0
    only_in_gold: int = 0
    only_in_bronze: int = 0
    duplicated: int = 0
    failing: int = 0
    examples: dict[str, list[Example]] = Field(default_factory=dict)

    @property
    def windows(self) -> int:
        """The windows that are not equal."""
        return sum(getattr(self, kind) for kind in DIFFERING)


def difference_lines(found: Differences, titles: Mapping[str, str], arrow: bool) -> Iterator[str]:
    """Counts and examples for people; `arrow`: as before → after, else side by side."""
    for kind, title in titles.items():
        if count := getattr(found, kind):
            yield f"  {title}: {count:,}"
            shown = found.examples.get(kind, [])
            for example in shown:
                yield f"    {_window(example)}: {_values(example, arrow)}"
            if count > len(shown):
                yield f"    … and {count - len(shown):,} more"


def plain(value: Any) -> Any:
    """A value of a table as JSON can hold it; numbers that it cannot hold become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value)


def _window(example: Example) -> str:
    start = example.window_start.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = ", ".join(f"{name}={_text(value)}" for name, value in example.keys.items())
    return f"{start} {keys}".rstrip()


def _values(example: Example, arrow: bool) -> str:
    gold, bronze = _side(example.gold, example.bronze), _side(example.bronze, example.gold)
    return f"{gold} → {bronze}" if arrow else f"gold {gold}; bronze {bronze}"


def _side(values: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> str:
    """Where both sides are there, only what differs: a table may have a hundred measures."""
    if values is None:
        return "nothing"
    shown = {n: v for n, v in values.items() if other is None or other[n] != v} or values
    return "(" + ", ".join(f"{name}={_text(value)}" for name, value in shown.items()) + ")"


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
