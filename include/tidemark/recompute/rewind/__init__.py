"""A pipeline taken back to the end of a former run: its input is read again, its tables are as they
were then, and each begins a new generation.

`past_runs.py` says where one may go back to, `plan.py` what that takes and whether it may be,
`change.py` is that as it is kept, `apply.py` carries it out but for the generations, which are
Spark's (`streaming/jobs/rewind.py`), and `record.py` writes it down. What a checkpoint becomes is
planned as for any query's (`checkpoint/rewind`).
"""
