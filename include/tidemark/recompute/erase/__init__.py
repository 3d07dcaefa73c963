"""Rows that are erased for good, with all that has held them.

`change.py` is what an act changes, as it is kept until it is done, and the record that stays;
`record.py` carries the moves out, writes down what was done, and proves it; `purge.py` removes what
held the rows before; `result.py` tells it. Which rows there are is Spark's
(`streaming/recompute/erasure.py`), as are the tables' new generations (`streaming/jobs/erase.py`).
"""
