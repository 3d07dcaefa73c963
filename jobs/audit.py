"""spark-submit jobs/audit.py --pipeline NAME-or-path: is gold what a batch query over bronze is?"""

import sys

from tidemark.streaming.jobs.audit import main

sys.exit(main())
