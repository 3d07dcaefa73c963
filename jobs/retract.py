"""spark-submit jobs/retract.py --pipeline NAME --where SQL: rows of bronze are taken out of it."""

import sys

from tidemark.streaming.jobs.retract import main

sys.exit(main())
