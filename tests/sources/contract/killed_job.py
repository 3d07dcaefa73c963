"""The stream's job with the kinds of source that tests have; it can end itself, as
`tests/end_to_end/killed_job.py` says."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.end_to_end.killed_job import run
from tests.sources.contract import numbered_log_stream  # noqa: F401

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
