"""Ad impressions, any number, with stated shares of rows that a pipeline must reject.

`plan` turns a frozen `Spec` into exact numbers, `rows` makes the lines chunk by chunk (both
pure), `generate` writes them and a manifest of what it made. What a row is, is a function of
the seed and the row's number, so a seed gives the same lines everywhere. Each row is one of:

- on time: not late; mildly out of order, by at most a quarter of the delay;
- late: more than the delay before the newest event time of the earlier files, in name order;
- duplicate: the same line as an on-time row before it, in this file or an earlier one;
- future: event time at least a day after `now`;
- malformed: broken JSON, a missing field or a wrong type, in equal parts.

`Clicks` asks for clicks on the good rows beside them, in files of their own.
"""

from __future__ import annotations

from samples.impressions.clicks import Clicks
from samples.impressions.rows import Chunk, rows
from samples.impressions.spec import Plan, Spec, plan
from samples.impressions.write import generate

__all__ = ["Chunk", "Clicks", "Plan", "Spec", "generate", "plan", "rows"]
