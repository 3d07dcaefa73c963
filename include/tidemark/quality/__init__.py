"""Validation between a run and its publish: checks, Data Docs, the gate.

The life of a validation:
1. plan what publish would write, from the same pins (`to_publish.py`);
2. judge it: built-in checks, conditions on rows, the source's checks, expectations;
3. write each verdict into `ops/quality`, and the pages of Data Docs where expectations ran;
4. with a failed `fail`, end the run unpublished (ChecksFailed).
Gold is never touched. Killed anywhere, a repeat judges again, and writes no verdict twice.
"""
