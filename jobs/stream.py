"""spark-submit jobs/stream.py --pipeline NAME-or-path: one run of a pipeline."""

import sys

from tidemark.streaming.stream.job import main

sys.exit(main())
