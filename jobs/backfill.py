"""spark-submit jobs/backfill.py --pipeline NAME --table T --from … --to …: closed windows anew."""

import sys

from tidemark.streaming.backfill.backfill_job import main

sys.exit(main())
