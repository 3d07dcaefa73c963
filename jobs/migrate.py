"""spark-submit jobs/migrate.py --pipeline NAME --table T: a table's next generation."""

import sys

from tidemark.streaming.jobs.migrate import main

sys.exit(main())
