"""Mark where a process changes something that outlives it: a table, a checkpoint, a file.

Killed before or after any marked call and started again, a pipeline comes to what an undisturbed
run gives. A function that writes and is neither marked nor only called by marked ones fails a
test, and so does a mark without a test that kills a process before and after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")
# A point's name, whether its work is still to come or done, and the arguments of the call.
Listener = Callable[[str, Literal["before", "after"], tuple[object, ...]], None]

# For tests alone, which end or suspend a process at a point; there is none in any other process.
on_reach: Listener | None = None


def commit_point(
    name: str, *, after_a_kill: str
) -> Callable[[Callable[_Given, _Returned]], Callable[_Given, _Returned]]:
    """Mark a function as a commit point; it does what it did.

    `after_a_kill` is for whoever reads the function: what a kill before its call leaves, and one
    after it. Where the call raises, `on_reach` is not told of an "after".
    """

    def mark(function: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
        @wraps(function)
        def marked(*values: _Given.args, **named: _Given.kwargs) -> _Returned:
            if on_reach is None:
                return function(*values, **named)
            given = (*values, *named.values())
            on_reach(name, "before", given)
            returned = function(*values, **named)
            on_reach(name, "after", given)
            return returned

        return marked

    return mark
