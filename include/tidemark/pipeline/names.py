"""Which names pipelines, tables and columns can have."""

from __future__ import annotations

import re

from tidemark.pipeline.problems import why_not

# Names of folders under the root: the same on every store and in every shell.
FOLDER_NAME = r"^[a-z][a-z0-9_]{0,99}$"
TABLE_NAMES_IN_USE = (
    *("bronze", "checkpoints", "data_docs", "ingest", "lease", "rejects", "results", "retracted"),
    *("erasures", "replayed", "replays", "retractions", "rewinds"),
)
PIPELINE_NAMES_IN_USE = ("ops",)
_IN_USE = {"table": TABLE_NAMES_IN_USE, "pipeline": PIPELINE_NAMES_IN_USE}
# A pipeline's backfill Dag has its name with this at the end; and so on.
BACKFILL_SUFFIX = "__backfill"
MAINTENANCE_SUFFIX = "__maintenance"
MIGRATE_SUFFIX = "__migrate"
REWIND_SUFFIX = "__rewind"
RETRACT_SUFFIX = "__retract"
# Of the ids of Dags that run several pipelines: no pipeline's name has a hyphen.
SHARED_PREFIX = "shared-"
# What these Dags do.
DAG_SUFFIXES = {
    BACKFILL_SUFFIX: "backfills",
    MAINTENANCE_SUFFIX: "maintenance",
    MIGRATE_SUFFIX: "migrations",
    REWIND_SUFFIX: "rewinds",
    RETRACT_SUFFIX: "retractions",
}
# Columns that publish adds to gold and changes.
COLUMNS_IN_USE = (
    *("window_start", "window_end", "window_date", "rows", "status", "revision"),
    *("updated_by", "cause", "generation", "run", "batch"),
)
# Delta refuses these in column names; a dot, a backtick or a quote would need quoting in
# every query that people write.
_NOT_IN_COLUMNS = re.compile(r"""[\s,;{}()=.`'"\\/]""")

# What files, terminals and catalogs read as something else than text, or not at all.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# The longest name of a file, and so of a partition's folder, on most file systems.
LONGEST_NAME = 255


def find_control_character(text: str) -> str | None:
    """The first control character, line separator or half of a character in a text."""
    found = _CONTROL.search(text)
    return found[0] if found else None


def folded(name: str) -> str:
    """One text for all names that Spark's resolver takes for one, as Java's `equalsIgnoreCase`
    does: each character in upper case and then in lower case, one for one. So `ſ` is `s`, the
    sign for Kelvin is `k`, and `ß` is not `ss`."""
    return "".join(map(_folded, name))


def _folded(character: str) -> str:
    # Python maps to several characters where Java's mapping of one has no single one.
    upper = character.upper()
    upper = upper if len(upper) == 1 else character.title()
    # The first is what `İ` alone has two of: `i` and a dot above.
    return (upper if len(upper) == 1 else character).lower()[0]


def same_column(one: str, other: str) -> bool:
    """Does Spark find the column `other` by the name `one`? It looks names up in lower case, and
    then compares them as its resolver does."""
    return folded(one) == folded(other) and one.lower() == other.lower()


def check_folder_name(name: str, what: str) -> None:
    """ValueError when `name` cannot name a pipeline, a table, or `what` else has a folder."""
    if not re.match(FOLDER_NAME, name) or name.endswith("\n"):
        raise ValueError(
            f"cannot name a {what}: lower-case letters, digits and `_`, a letter first, "
            "at most 100 of them"
        )
    if name in _IN_USE.get(what, ()):
        raise ValueError("names a folder that the platform makes; choose another")
    for suffix, dags in DAG_SUFFIXES.items():
        if what == "pipeline" and name.endswith(suffix):
            raise ValueError(f"ends with {suffix}, as the Dags of {dags} do")


def is_column_name(name: str) -> bool:
    """Can a column have this name, and people read it?"""
    return why_not(check_column_name, name) is None and name.isprintable()


def check_column_name(name: str) -> None:
    """ValueError when `name` cannot be a column of a Delta table or is kept for the platform."""
    if not name:
        raise ValueError("is empty, which cannot name a column")
    if name.startswith("_"):
        raise ValueError("begins with `_`; those names are kept for the platform's columns")
    found = _NOT_IN_COLUMNS.search(name)
    if character := found[0] if found else find_control_character(name):
        raise ValueError(f"cannot name a column: it has the character {character!r}")
    if (length := len(name.encode())) > LONGEST_NAME:
        raise ValueError(f"cannot name a column: it has {length} bytes, at most {LONGEST_NAME}")
