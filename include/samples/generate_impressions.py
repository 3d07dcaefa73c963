#!/usr/bin/env python3
"""Makes ad impressions from the command line; needs numpy. See README.md beside this file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

# Run as a script, Python looks for modules in this folder only, not in the one above it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from samples.impressions import Clicks, Spec, generate
from samples.impressions.spec import SHARES


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all files and the manifest are written. 1: the reason is on stderr."""
    given = _parser().parse_args(arguments)
    try:
        clicks = Clicks(given.click_share, given.late_clicks)
        made = generate(_spec(given), given.out, given.manifest, clicks, given.clicks)
    except (ValueError, OverflowError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    told = {**made["total"], "clicks": made["clicks"]} if given.clicks else made["total"]
    print(json.dumps(told, indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Make ad impressions as JSON-lines files, and write down what was made.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add, iso = parser.add_argument, datetime.fromisoformat
    add("out", type=Path, help="folder for the files, such as a pipeline's landing folder")
    add("--manifest", type=Path, required=True, help="JSON file outside of that folder")
    add("--rows", type=int, default=10_000, help="number of rows of all files")
    add("--files", type=int, default=10, help="number of files")
    add("--seed", type=int, default=1, help="the same seed makes the same rows")
    add("--spots", type=int, default=100, help="number of different spots")
    for share in SHARES:
        add(f"--{share}", type=float, default=0.0, metavar="SHARE", help="of all rows, 0 to 1")
    add("--clicks", type=Path, help="folder for clicks on the impressions; if none: no clicks")
    add("--click-share", type=float, default=0.1, metavar="SHARE", help="of good rows, 0 to 1")
    add("--late-clicks", type=float, default=0.05, metavar="SHARE", help="of clicks, 0 to 1")
    add("--delay-minutes", type=float, default=10.0, help="the watermark's delay")
    add("--span-minutes", type=float, default=60.0, help="length of the on-time event times")
    add("--start", type=iso, help="first event time, ISO 8601 with zone; if none: now - span")
    add("--now", type=iso, help="ISO 8601 with zone; if none: the clock")
    add("--gzip", action="store_true", help="compress the files")
    return parser


def _spec(given: argparse.Namespace) -> Spec:
    now = given.now or datetime.now(UTC)
    span = timedelta(minutes=given.span_minutes)
    as_given = ("rows", "files", "seed", "spots", "gzip", *SHARES)
    return Spec(
        **{name: getattr(given, name) for name in as_given},
        start=given.start or now - span,
        span=span,
        now=now,
        delay=timedelta(minutes=given.delay_minutes),
    )


if __name__ == "__main__":
    sys.exit(main())
