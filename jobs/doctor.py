"""spark-submit jobs/doctor.py --result PATH: does the engine have what a run needs?"""

import sys

from tidemark.streaming.jobs.doctor import main

sys.exit(main())
