"""spark-submit jobs/stream.py --pipeline NAME-or-path: one run of a pipeline."""

import sys

from tidemark.streaming.jobs.stream import main

sys.exit(main())
