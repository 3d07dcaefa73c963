"""Why a line is not accepted: the reasons that rejects and ledgers name."""

from __future__ import annotations

MALFORMED = "malformed"
# Told by the source, as such a line is not read to be judged.
TOO_LARGE = "too large"
MISSING_FIELD = "missing field"
WRONG_TYPE = "wrong type"
UNKNOWN_FIELD = "unknown field"
TOO_OLD = "too old"
FUTURE = "future"

# As much of a value as a detail shows, in characters.
SHOWN = 120
