"""spark-submit jobs/rewind.py --pipeline NAME --to-run RUN: back to the end of a former run."""

import sys

from tidemark.streaming.jobs.rewind import main

sys.exit(main())
