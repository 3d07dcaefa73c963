"""spark-submit jobs/stream.py --pipeline NAME-or-path: one run of a pipeline."""

import sys

from tidemark.streaming.job import main

sys.exit(main())
