"""spark-submit jobs/many.py --pipeline NAME-or-path …: one run of each, in one Spark."""

import sys

from tidemark.streaming.jobs.many import main

sys.exit(main())
