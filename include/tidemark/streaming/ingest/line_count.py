"""How many lines a batch has: counted apart from judging them.

A row that judging lost or doubled shows as a difference between the two.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.sources.source import LineCount


def count_lines(lines: DataFrame) -> LineCount:
    """Counted by Spark, in a pass of its own over `_value`, where the source does not count."""
    number, size = lines.agg(F.count("*"), F.sum(F.octet_length("_value"))).collect()[0]
    return LineCount(number, size or 0)
