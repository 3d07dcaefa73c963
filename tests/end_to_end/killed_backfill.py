"""`jobs/backfill.py` that ends itself, with its process group, before it writes gold."""

from __future__ import annotations

import os
import signal
import sys

from killed_job import call_at  # beside this script

from tidemark.streaming.jobs.backfill import main


def end() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    call_at(end, "before", "gold", "1", "")
    sys.exit(main())
