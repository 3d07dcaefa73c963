"""What the JVM of a run is told, by how much there is to read."""

from __future__ import annotations

from collections.abc import Mapping

_VARIABLE = "SPARK_SUBMIT_OPTS"
_FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
# Measured where both take as long: some 300,000 short rows.
LARGE_BYTES = 25_000_000


def jvm_variables(environment: Mapping[str, str], input_bytes: int) -> dict[str, str]:
    """Environment variables to change for a run that reads so much.

    Set-up writes flags for small runs: the JVM's second compiler, which costs a small run a third
    of its time and makes a large one twice as fast, is off. For large input it is left on.
    """
    flags = environment.get(_VARIABLE, "").split()
    if input_bytes < LARGE_BYTES or _FIRST_COMPILER_ONLY not in flags:
        return {}
    return {_VARIABLE: " ".join(flag for flag in flags if flag != _FIRST_COMPILER_ONLY)}
