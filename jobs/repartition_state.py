"""spark-submit jobs/repartition_state.py --pipeline NAME-or-path: state in so many partitions."""

import sys

from tidemark.streaming.jobs.repartition_state import main

sys.exit(main())
