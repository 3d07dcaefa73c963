"""What an error of the engine says is missing on the driver or on the executors.

Running again does not help there: somebody has to put it in place first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tidemark.errors import ClusterBusy, EngineMissing

JARS_ON_ALL = (
    "Put the jars on the class path of driver and executors: SPARK_DIST_CLASSPATH in the "
    "environment of the workers, or spark.jars (which copies them to each executor, each run)."
)
PYTHON_ON_ALL = (
    "Executors need the driver's Python and Tidemark: the same image, the same virtual "
    "environment at the same path, or a packed one by spark.archives, named in PYSPARK_PYTHON."
)

_CLASS = re.compile(
    r"(?:ClassNotFoundException: (?:Class )?|NoClassDefFoundError: )([\w.$/]+)(?: not found)?"
)
_SCHEME = re.compile(r'No FileSystem for scheme:? "?(\w+)"?')
_FOREIGN_LAMBDA = "cannot assign instance of java.lang.invoke.SerializedLambda"
# Those that Spark's tasks import; another is a user's own.
_NO_MODULE = re.compile(
    r"No module named '((?:tidemark|pyspark|pyarrow|numpy|deltalake|obstore|pydantic)[\w.]*)'"
)
_PYTHON_DIFFERS = re.compile(r"\[PYTHON_VERSION_MISMATCH\][^\n]*")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')


def lacking(error: Exception, happened: str) -> EngineMissing | None:
    """What a cluster lacks, by the engine's error; None where it is about something else.

    `happened` says what failed and in which state things are now.
    """
    texts = [str(error), getattr(error, "_stackTrace", None) or "", *java_causes(error)]
    text = "\n".join(texts)
    reason = next(_reasons(text), None)
    return None if reason is None else EngineMissing(f"{happened} {reason}")


def _reasons(text: str) -> Iterator[str]:
    for pattern, description in _TOLD:
        if found := pattern.search(text):
            yield description(found)
    if _FOREIGN_LAMBDA in text:
        yield f"The executors lack jars that the driver has, Delta's most likely. {JARS_ON_ALL}"


_TOLD: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_PYTHON_DIFFERS, lambda found: f"{found[0]} {PYTHON_ON_ALL}"),
    (
        _NO_MODULE,
        lambda found: f"The executors' Python has no module {found[1]}. {PYTHON_ON_ALL}",
    ),
    (_NO_PYTHON, lambda found: f"The executors have no {found[1]}. {PYTHON_ON_ALL}"),
    (
        _CLASS,
        lambda found: (
            f"The class {found[1].replace('/', '.')} is not on the class path. {JARS_ON_ALL}"
        ),
    ),
    (_SCHEME, lambda found: f"Hadoop knows no file system for `{found[1]}:`. {JARS_ON_ALL}"),
)


def java_causes(error: Exception) -> list[str]:
    """What the JVM says of an exception that came from it by Py4J, and of each of its causes, the
    deepest last; empty for others."""
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    causes: list[str] = []
    while origin is not None and len(causes) < 20:
        causes.append(str(origin.toString()))
        origin = origin.getCause()
    return causes


def master_gone(master: str | None) -> ClusterBusy:
    """The engine stops its context where no master answers, or the master ends the application."""
    return ClusterBusy(
        f"The master {master} does not answer, or has ended this run. Nothing was read or written. "
        "Look whether it runs, at this address. Running it again can help."
    )
