"""spark-submit jobs/read_state.py --pipeline NAME --table T: what the table's query remembers."""

import sys

from tidemark.streaming.jobs.read_state import main

sys.exit(main())
