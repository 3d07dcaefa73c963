"""spark-submit jobs/validate.py --pipeline NAME-or-path --held RESULT: may it be published?"""

import sys

from tidemark.streaming.jobs.validate import main

sys.exit(main())
