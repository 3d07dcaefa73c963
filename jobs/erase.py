"""spark-submit jobs/erase.py --pipeline NAME --where SQL: rows are erased for good."""

import sys

from tidemark.streaming.jobs.erase import main

sys.exit(main())
