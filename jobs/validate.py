"""spark-submit jobs/validate.py --pipeline NAME-or-path --held RESULT: may it be published?"""

import sys

from tidemark.streaming.validation.validate_job import main

sys.exit(main())
