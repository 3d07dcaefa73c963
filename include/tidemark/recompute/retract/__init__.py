"""Rows of bronze that were a mistake are taken out of it, and can be brought back.

`change.py` is what an act changes, as it is kept; `refusals.py` says why it may not be; `record.py`
writes down what was done, and proves it; `result.py` tells it. What rows there are and where they
go is Spark's (`streaming/recompute/retraction.py`), as are the tables' new generations
(`streaming/jobs/retract.py`).
"""
