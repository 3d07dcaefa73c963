"""spark-submit jobs/compact_state.py --pipeline NAME-or-path: snapshots of state that is due."""

import sys

from tidemark.streaming.jobs.compact_state import main

sys.exit(main())
