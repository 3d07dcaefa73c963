"""Why a row is not accepted: the reasons that rejects and ledgers name, beside those of rules."""

from __future__ import annotations

MALFORMED = "malformed"
# Told by the source, as such a line is not read to be judged.
TOO_LARGE = "too large"
MISSING_FIELD = "missing field"
WRONG_TYPE = "wrong type"
UNKNOWN_FIELD = "unknown field"
TOO_OLD = "too old"
FUTURE = "future"
# Told by Spark: an expression fails on the row, or it repeats another.
EXPRESSION, DUPLICATE = "expression", "duplicate"
# It lies too far after all others.
JUMP = "jump"
# Of a message that changes a row: a newer one does it, it takes the row away, or does not name it.
SUPERSEDED, ROW_DELETED, NO_KEY = "superseded", "row deleted", "no row key"
# It has values by which an erasure rejects what comes again. Nothing is kept of what it holds.
ERASED = "erased row"
# Of a message, a file, a version of a table.
NO_VALUE, UNREADABLE = "no value", "unreadable file"
CHANGED_FILE, CHANGED_ROWS = "changed file", "changed rows"
# What is gone of a source, once that is accepted.
EXPIRED, REPLACED, DELETED, CUT_OFF = "expired", "replaced", "deleted", "cut off"
GONE, SET_BACK = "gone", "set back"
# A file that a rewind was to go on without.
LEFT_OUT = "left out"

# Of a reject that stands for a whole part of the source.
OF_PARTS = frozenset(
    (
        *(UNREADABLE, CHANGED_FILE, CHANGED_ROWS, EXPIRED, REPLACED, DELETED, CUT_OFF, GONE),
        *(SET_BACK, LEFT_OUT),
    )
)
REASONS = OF_PARTS | frozenset(
    (
        *(MALFORMED, TOO_LARGE, MISSING_FIELD, WRONG_TYPE, UNKNOWN_FIELD, TOO_OLD, FUTURE),
        *(EXPRESSION, JUMP, DUPLICATE, NO_VALUE, SUPERSEDED, ROW_DELETED, NO_KEY, ERASED),
    )
)
# What a source in order has, too.
NO_FAULTS = frozenset((SUPERSEDED, ROW_DELETED))

# As much of a value as a detail shows, in characters.
SHOWN = 120
