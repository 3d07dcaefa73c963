"""Tables that stay open between questions, and what they answered.

To open a table of many commits takes a hundred times as long as to follow one that is open, and
what a table says follows from its version. So each is held with the mark of its newest entry, and
an answer holds until that is another one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, TypeVar

from deltalake import DeltaTable

from tidemark.storage.delta.appended import entry_mark
from tidemark.storage.delta.place import TablePlace

T = TypeVar("T")
_TABLES = 400
_ANSWERS = 12


@dataclass
class _Held:
    lock: RLock = field(default_factory=RLock)
    table: DeltaTable | None = None
    mark: int = -1
    answers: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)


class OpenTables:
    """The tables of one process. Threads may ask at once; of one table they wait for each other."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._lock = Lock()

    def ask(
        self, place: TablePlace, question: Hashable, answer: Callable[[DeltaTable], T]
    ) -> T | None:
        """What the table at its newest version answers; None where there is none.

        A question that was asked of this version is not worked out again. It has to tell all that
        the answer rests on beside the table.
        """
        with self._lock:
            held = self._held.setdefault(place.uri, _Held())
            self._held.move_to_end(place.uri)
            if len(self._held) > _TABLES:
                self._held.popitem(last=False)
        with held.lock:
            table = _newest(held, place)
            if table is None:
                return None
            if question not in held.answers:
                held.answers[question] = answer(table)
            held.answers.move_to_end(question)
            if len(held.answers) > _ANSWERS:
                held.answers.popitem(last=False)
            found: T = held.answers[question]
            return found


def _newest(held: _Held, place: TablePlace) -> DeltaTable | None:
    before = held.mark
    # Another table may lie there by now: one that was put back, or made anew.
    if held.table is None or before == -1 or entry_mark(place, held.table.version()) != before:
        held.table = place.open()
    else:
        version = held.table.version()
        held.table.update_incremental()
        if held.table.version() == version:
            return held.table
    held.answers.clear()
    held.mark = -1 if held.table is None else entry_mark(place, held.table.version())
    return held.table
