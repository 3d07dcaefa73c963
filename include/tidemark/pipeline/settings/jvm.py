"""What the JVM of a job is told, by how much there is to read."""

from __future__ import annotations

from collections.abc import Mapping

_VARIABLE = "SPARK_SUBMIT_OPTS"
_FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
# Measured up to five million short rows, where one compiler takes less time and less CPU still.
LARGE_BYTES = 500_000_000


def jvm_variables(environment: Mapping[str, str], input_bytes: int) -> dict[str, str]:
    """Environment variables to change for a job that reads so much.

    Set-up writes flags for small runs: the JVM's second compiler, which costs a small run a third
    of its time and makes a large one twice as fast, is off. For large input it is left on.
    The JVM reads its arguments and names of files by the locale, makes question marks of what it
    cannot tell, and passes over such files: the locale is one of UTF-8.
    """
    flags = environment.get(_VARIABLE, "").split()
    changed = {} if _is_utf8(environment) else {"LC_ALL": "C.UTF-8"}
    if input_bytes >= LARGE_BYTES and _FIRST_COMPILER_ONLY in flags:
        changed[_VARIABLE] = " ".join(flag for flag in flags if flag != _FIRST_COMPILER_ONLY)
    return changed


def _is_utf8(environment: Mapping[str, str]) -> bool:
    """Is the locale one of UTF-8, looked for as setlocale(3) does? Without any, as in cron and
    small containers, it is not."""
    names = (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "")
    return locale.partition(".")[2].lower().replace("-", "").startswith("utf8")
