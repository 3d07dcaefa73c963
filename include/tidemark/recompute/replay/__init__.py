"""Rejects that are judged anew, mended or as they were read, and come to bronze after all.

`mended.py` reads the file that mends them; `change.py` is what an act changes, as it is kept;
`record.py` carries the plan out, writes down what was done, and proves it, all without Spark;
`result.py` tells it. How they are judged is Spark's (`streaming/recompute/replaying.py`).
"""
