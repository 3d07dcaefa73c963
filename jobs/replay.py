"""spark-submit jobs/replay.py --pipeline NAME --again: rejects are judged anew."""

import sys

from tidemark.streaming.jobs.replay import main

sys.exit(main())
