"""The key of a row that its source may change, as one text: of one column its text, of several
their texts behind one another, so that no two keys have one text."""

from __future__ import annotations

from collections.abc import Sequence

# What stands between two texts, and what is put before it, and before itself, within one.
BETWEEN, ESCAPE = ",", "~"


def key_text(texts: Sequence[str]) -> str:
    """The key of a row whose columns have these texts, in the order of the pipeline's file."""
    if len(texts) == 1:
        return texts[0]
    escaped = (one.replace(ESCAPE, ESCAPE * 2) for one in texts)
    return BETWEEN.join(one.replace(BETWEEN, ESCAPE + BETWEEN) for one in escaped)


def key_sql(texts: Sequence[str]) -> str:
    """An expression of Spark SQL that has `key_text` of expressions of texts; null where one is."""
    if len(texts) == 1:
        return texts[0]
    escaped = (f"replace({one}, '{ESCAPE}', '{ESCAPE * 2}')" for one in texts)
    parts = (f"replace({one}, '{BETWEEN}', '{ESCAPE}{BETWEEN}')" for one in escaped)
    between = f", '{BETWEEN}', "
    return f"concat({between.join(parts)})"
