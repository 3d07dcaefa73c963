"""spark-submit jobs/read_state.py --pipeline NAME --table T: what the table's query remembers."""

import sys

from tidemark.streaming.state.read_job import main

sys.exit(main())
