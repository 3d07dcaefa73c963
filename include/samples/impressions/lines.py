"""A row as a line of JSON, whole or spoiled."""

from __future__ import annotations

import json

import numpy as np

from samples.impressions.draw import AGENT, ID, SPOT, Ints, below, draw
from samples.impressions.kinds import BROKEN_JSON, MISSING_FIELD
from samples.impressions.spec import Spec

# Formatting is several times as fast as json.dumps; nothing in a row needs escaping.
LINE = '{"timestamp":"%s","spotId":%d,"impressionId":"%016x","agent":"%s"}'
REQUIRED = ("timestamp", "spotId", "impressionId")
WRONG_TYPES = (("timestamp", "the first of March"), ("spotId", "spot 111"), ("spotId", [111]))
AGENTS = (
    "Mozilla/5.0 (Linux; Android 16; Pixel 10) AppleWebKit/537.36 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko/20100101 Firefox/147.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/144.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_7) AppleWebKit/605.1.15 Version/19.0 Safari/605.1",
)


def lines_of(spec: Spec, sources: Ints, times: Ints, kinds: Ints) -> list[str]:
    """Lines without their ends; `sources` are the row numbers that the content comes from."""
    stamps = np.datetime_as_string(times.astype("datetime64[ms]"), timezone="UTC").tolist()
    spots = (1 + below(spec.seed, SPOT, sources, spec.spots)).tolist()
    ids = draw(spec.seed, ID, sources).tolist()
    agents = [AGENTS[k] for k in below(spec.seed, AGENT, sources, len(AGENTS)).tolist()]
    lines = [LINE % fields for fields in zip(stamps, spots, ids, agents, strict=True)]
    for place in np.flatnonzero(kinds >= BROKEN_JSON).tolist():
        lines[place] = _spoil(lines[place], int(kinds[place]), ids[place])
    return lines


def _spoil(line: str, kind: int, bits: int) -> str:
    if kind == BROKEN_JSON:
        return line[: 1 + bits % (len(line) - 1)]  # an object without its last brace
    fields = json.loads(line)
    if kind == MISSING_FIELD:
        del fields[REQUIRED[bits % len(REQUIRED)]]
    else:
        fields.update([WRONG_TYPES[bits % len(WRONG_TYPES)]])
    return json.dumps(fields, separators=(",", ":"))
