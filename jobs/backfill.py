"""spark-submit jobs/backfill.py --pipeline NAME --table T --from … --to …: closed windows anew."""

import sys

from tidemark.streaming.jobs.backfill import main

sys.exit(main())
