"""What the engine makes of a few rows in session windows, and what gold has to hold after each run.

The gap is 6 minutes, the watermark 10 minutes behind the newest row: that of another visitor, the
clock. So with the clock at minute 30 the watermark is at 20, rows of minute 14 and before are late,
the engine has emitted what ends by 20, and gold is closed up to 14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.operators.contract.kinds import Row, event

CLOCK = "clock"
TICK = 1 / 60_000_000
# By key, start and end in minutes: rows, status, revision.
Gold = Mapping[tuple[str | None, float, float], tuple[int, str, int]]


@dataclass(frozen=True)
class Step:
    """A run: what landed before it, and all that gold holds after it but the clock's sessions."""

    rows: Sequence[Row]
    gold: Gold
    hold: bool = False


@dataclass(frozen=True)
class Story:
    """`emitted`: what the engine emitted in all runs, by key, start, end and number of rows.

    `wrong_alone`: is gold wrong after some run where what it emits is not held against bronze?
    """

    name: str
    steps: Sequence[Step]
    emitted: set[tuple[str | None, float, float, int]] = field(default_factory=set)
    wrong_alone: bool = True


def a(*minutes: float) -> list[Row]:
    return [event(minute, "a") for minute in minutes]


def clock(minute: float) -> Row:
    return event(minute, CLOCK)


FIRST_OPEN = [*a(0, 5, 10, 15, 20), clock(30)]


def of(**minutes: Sequence[float]) -> list[Row]:
    """Rows of several keys."""
    return [event(minute, key) for key, held in minutes.items() for minute in held]


# The lines of the page's table, a key for each, and the ends to the microsecond: a clock for all.
SIDE_BY_SIDE = Story(
    "what surprises, side by side",
    [
        Step(
            [
                *of(late_in_open=[0, 5, 10, 15, 20], in_time=[12], joins_to_open=[10, 20]),
                *of(touches_emitted=[13], late_to_open=[0, 10, 14, 18], late_joins=[0, 7.5]),
                *of(touching=[0, 6], apart=[0, 6 + TICK], on_frontier=[14]),
                clock(30),
            ],
            {
                ("in_time", 12, 18): (1, "provisional", 0),
                ("joins_to_open", 10, 16): (1, "provisional", 0),
                ("touches_emitted", 13, 19): (1, "provisional", 0),
                ("late_to_open", 0, 6): (1, "final", 0),
                ("late_joins", 0, 6): (1, "final", 0),
                ("late_joins", 7.5, 13.5): (1, "final", 0),
                ("touching", 0, 12): (2, "final", 0),
                ("apart", 0, 6): (1, "final", 0),
                ("apart", 6 + TICK, 12 + TICK): (1, "final", 0),
                ("on_frontier", 14, 20): (1, "provisional", 0),
            },
        ),
        Step(
            [
                *of(late_in_open=[3], in_time=[17], joins_to_open=[15], touches_emitted=[19]),
                *of(late_to_open=[5], late_joins=[4], on_frontier=[14]),
                *of(after_frontier=[14 + TICK]),
            ],
            {
                ("in_time", 12, 23): (2, "provisional", 0),
                ("joins_to_open", 10, 26): (3, "provisional", 0),
                ("touches_emitted", 13, 25): (2, "provisional", 0),
                ("late_to_open", 0, 24): (5, "provisional", 1),
                ("late_joins", 0, 13.5): (3, "corrected", 1),
                ("touching", 0, 12): (2, "final", 0),
                ("apart", 0, 6): (1, "final", 0),
                ("apart", 6 + TICK, 12 + TICK): (1, "final", 0),
                ("on_frontier", 14, 20): (2, "provisional", 0),
            },
        ),
        Step(
            [clock(50)],
            {
                ("late_in_open", 0, 26): (6, "final", 0),
                ("in_time", 12, 23): (2, "final", 0),
                ("joins_to_open", 10, 26): (3, "final", 0),
                ("touches_emitted", 13, 25): (2, "final", 0),
                ("late_to_open", 0, 24): (5, "corrected", 1),
                ("late_joins", 0, 13.5): (3, "corrected", 1),
                ("touching", 0, 12): (2, "final", 0),
                ("apart", 0, 6): (1, "final", 0),
                ("apart", 6 + TICK, 12 + TICK): (1, "final", 0),
                ("on_frontier", 14, 20): (2, "final", 0),
                ("after_frontier", 14 + TICK, 20 + TICK): (1, "final", 0),
            },
        ),
    ],
    {
        ("late_in_open", 0, 26, 5),
        *(("in_time", 12, 18, 1), ("in_time", 17, 23, 1)),
        *(("joins_to_open", 10, 16, 1), ("joins_to_open", 15, 26, 2)),
        *(("touches_emitted", 13, 19, 1), ("touches_emitted", 19, 25, 1)),
        *(("late_to_open", 0, 6, 1), ("late_to_open", 10, 24, 3)),
        *(("late_joins", 0, 6, 1), ("late_joins", 7.5, 13.5, 1)),
        ("touching", 0, 12, 2),
        *(("apart", 0, 6, 1), ("apart", 6 + TICK, 12 + TICK, 1)),
        *(("on_frontier", 14, 20, 1), ("after_frontier", 14 + TICK, 20 + TICK, 1)),
    },
)

STORIES = (
    SIDE_BY_SIDE,
    Story(
        "late into an open session",
        [
            Step(FIRST_OPEN, {}),
            # The engine drops it, as 3 + 6 is before 20, though [0, 26) is open.
            Step(a(3), {}),
            Step([clock(36)], {("a", 0, 26): (6, "provisional", 0)}),
            Step([clock(42)], {("a", 0, 26): (6, "final", 0)}),
        ],
        {("a", 0, 26, 5)},
    ),
    Story(
        "late before an open session",
        [
            Step([*a(8, 14, 20), clock(30)], {}),
            Step(a(2), {}),
            Step([clock(42)], {("a", 2, 26): (4, "final", 0)}),
        ],
        {("a", 8, 26, 3)},
    ),
    Story(
        "not late into an emitted session",
        [
            Step([*a(25), clock(41)], {("a", 25, 31): (1, "provisional", 0)}),
            Step([*a(28), clock(41)], {("a", 25, 34): (2, "provisional", 0)}),
            Step(a(33), {("a", 25, 39): (3, "provisional", 0)}),
            Step([clock(60)], {("a", 25, 39): (3, "final", 0)}),
        ],
        {("a", 25, 31, 1), ("a", 28, 39, 2)},
    ),
    Story(
        "not late before an emitted session",
        [
            Step([*a(17, 20), clock(36)], {("a", 17, 26): (2, "provisional", 0)}),
            # Though 21 is in the emitted one, the engine begins another with it.
            Step([*a(21), clock(37)], {("a", 17, 27): (3, "provisional", 0)}),
            Step([clock(50)], {("a", 17, 27): (3, "final", 0)}),
        ],
        {("a", 17, 26, 2), ("a", 21, 27, 1)},
    ),
    Story(
        "one row that joins two open sessions",
        [
            Step([*a(0, 10), clock(12)], {}),
            Step(a(5), {}),
            Step([clock(40)], {("a", 0, 16): (3, "final", 0)}),
        ],
        {("a", 0, 16, 3)},
        wrong_alone=False,
    ),
    Story(
        "one row that joins an emitted session to an open one",
        [
            Step([*a(0, 10), clock(18)], {("a", 0, 6): (1, "provisional", 0)}),
            Step(a(5), {("a", 0, 16): (3, "provisional", 0)}),
            Step([clock(40)], {("a", 0, 16): (3, "final", 0)}),
        ],
        {("a", 0, 6, 1), ("a", 5, 16, 2)},
    ),
    Story(
        "one row that joins two emitted sessions",
        [
            Step(
                [*a(20, 30), clock(46)],
                {("a", 20, 26): (1, "final", 0), ("a", 30, 36): (1, "provisional", 0)},
            ),
            # Late, and 20 is closed.
            Step(a(25), {("a", 20, 36): (3, "provisional", 1)}),
            Step([clock(60)], {("a", 20, 36): (3, "corrected", 1)}),
        ],
        {("a", 20, 26, 1), ("a", 30, 36, 1)},
        wrong_alone=False,
    ),
    Story(
        "one late row that joins two closed sessions",
        [
            Step([*a(0, 10), clock(40)],
                 {("a", 0, 6): (1, "final", 0), ("a", 10, 16): (1, "final", 0)}),
            Step(a(5), {("a", 0, 16): (3, "corrected", 1)}),
        ],
        {("a", 0, 6, 1), ("a", 10, 16, 1)},
        wrong_alone=False,
    ),
    Story(
        "a late row before a closed session",
        [
            Step([*a(10), clock(40)], {("a", 10, 16): (1, "final", 0)}),
            # By its start it is another session, which was not seen before.
            Step(a(5), {("a", 5, 16): (2, "final", 0)}),
        ],
        {("a", 10, 16, 1)},
        wrong_alone=False,
    ),
    Story(
        "a late row that joins a closed session to an open one",
        [
            Step([*a(0, 10, 14, 18), clock(24)], {("a", 0, 6): (1, "final", 0)}),
            Step(a(5), {("a", 0, 24): (5, "provisional", 1)}),
            # The engine ends its own, without what it dropped.
            Step([clock(34)], {("a", 0, 24): (5, "provisional", 1)}),
            Step([clock(50)], {("a", 0, 24): (5, "corrected", 1)}),
        ],
        {("a", 0, 6, 1), ("a", 10, 24, 3)},
    ),
    Story(
        "touching ends are one session, a microsecond more makes two",
        [
            Step(
                [*[event(minute, key) for minute in (0, 6) for key in ("a", None)],
                 event(0, "b"), event(6 + TICK, "b"), clock(40)],
                {("a", 0, 12): (2, "final", 0), (None, 0, 12): (2, "final", 0),
                 ("b", 0, 6): (1, "final", 0), ("b", 6 + TICK, 12 + TICK): (1, "final", 0)},
            ),
        ],
        {("a", 0, 12, 2), (None, 0, 12, 2), ("b", 0, 6, 1), ("b", 6 + TICK, 12 + TICK, 1)},
        wrong_alone=False,
    ),
    Story(
        "a row that touches the end of an emitted session goes on with it",
        [
            Step(
                [*a(0), event(0, None), event(0, "b"), clock(16)],
                {(key, 0, 6): (1, "provisional", 0) for key in ("a", "b", None)},
            ),
            Step(
                [*a(6), event(6, None), event(6 + TICK, "b")],
                {("a", 0, 12): (2, "provisional", 0), (None, 0, 12): (2, "provisional", 0),
                 ("b", 0, 6): (1, "provisional", 0)},
            ),
            Step(
                [clock(40)],
                {("a", 0, 12): (2, "final", 0), (None, 0, 12): (2, "final", 0),
                 ("b", 0, 6): (1, "final", 0), ("b", 6 + TICK, 12 + TICK): (1, "final", 0)},
            ),
        ],
        {("a", 0, 6, 1), ("a", 6, 12, 1), (None, 0, 6, 1), (None, 6, 12, 1),
         ("b", 0, 6, 1), ("b", 6 + TICK, 12 + TICK, 1)},
    ),
    Story(
        "the frontier is less the gap: on it a row is late, a microsecond later it is not",
        [
            Step([*a(20), clock(36)], {("a", 20, 26): (1, "provisional", 0)}),
            # The watermark is at 26.
            Step([*a(20), event(20 + TICK, "b")], {("a", 20, 26): (2, "provisional", 0)}),
            Step(
                [clock(60)],
                {("a", 20, 26): (2, "final", 0), ("b", 20 + TICK, 26 + TICK): (1, "final", 0)},
            ),
        ],
        {("a", 20, 26, 1), ("b", 20 + TICK, 26 + TICK, 1)},
        wrong_alone=False,
    ),
    Story(
        "a held run, and then one that is published",
        [
            Step([*a(0, 20), clock(36)],
                 {("a", 0, 6): (1, "final", 0), ("a", 20, 26): (1, "provisional", 0)}),
            Step([*a(5, 23), clock(44)],
                 {("a", 0, 6): (1, "final", 0), ("a", 20, 26): (1, "provisional", 0)}, hold=True),
            # The held run let the engine emit [23, 29), and this one's row touches both.
            Step([*a(29), clock(44)],
                 {("a", 0, 11): (2, "corrected", 1), ("a", 20, 35): (3, "provisional", 0)}),
            Step([clock(60)],
                 {("a", 0, 11): (2, "corrected", 1), ("a", 20, 35): (3, "final", 0)}),
        ],
        {("a", 0, 6, 1), ("a", 20, 26, 1), ("a", 23, 29, 1), ("a", 29, 35, 1)},
    ),
)  # fmt: skip
