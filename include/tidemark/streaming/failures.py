"""Errors of the engine as ours: the cause first and whole, whatever is thrown around it.

The engine wraps what goes wrong in a batch or a task into errors of its own, with the tracebacks of
Python and the stacks of Java as text between. It logs all of that itself; here they are left out.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidemark.errors import DataDamaged, RunFailed, TidemarkError
from tidemark.storage.delta.damage import damage_of
from tidemark.streaming.cluster.lacking import java_causes, lacking
from tidemark.streaming.exhausted import exhausted, is_exhausted
from tidemark.streaming.expression_errors import expression_failure

_TRACEBACK = "Traceback (most recent call last):\n"
# Where the message of an error of Java ends, in a text that has its stack too.
_STACK = ("\n\tat ", "\n\t... ", "\nDriver stacktrace:", "\n\nJVM stacktrace:")
# Of a cause around the deepest one, enough to see where it was.
_LONGEST_AROUND = 300


def failure_of(error: Exception, happened: str) -> TidemarkError:
    """The error as one of ours. `happened` says what failed, and in which state things are."""
    if isinstance(error, TidemarkError):
        return error
    if known := expression_failure(error, happened) or lacking(error, happened):
        return known
    if is_exhausted(error):
        return exhausted(happened)
    cause = cause_of(error)
    if damage := damage_of(RuntimeError(cause)):
        return DataDamaged(f"{damage} {happened}")
    return RunFailed(f"{cause}\n{happened} The log has the tracebacks.")


def is_of_engine(error: Exception) -> bool:
    return isinstance(error, PySparkException | Py4JJavaError)


def cause_of(error: Exception) -> str:
    """What went wrong, without tracebacks and stacks: the deepest cause, whole."""
    if causes := java_causes(error):
        return told_in_order(causes)
    return _message("".join(traceback.format_exception_only(error)))


def told_in_order(causes: Sequence[str]) -> str:
    """The deepest of Java's causes, whole, and a line for each around it that says more than what
    it wraps. `causes` begins with the outermost."""
    messages = [_message(cause) for cause in causes]
    around = [
        f"in {outer.splitlines()[0][:_LONGEST_AROUND]}"
        for outer, inner in zip(messages[-2::-1], messages[:0:-1], strict=True)
        if inner.partition(": ")[2] not in outer or ": " not in inner
    ]
    return "\n".join([messages[-1], *around])


def _message(text: str) -> str:
    """The last error that a text tells of: of a traceback of Python's what follows its frames,
    which are indented; of a stack of Java's what stands before its frames."""
    _, traced, block = text.rpartition(_TRACEBACK)
    if traced:
        lines = block.split("\n")
        frames = next((n for n, line in enumerate(lines) if line[:1] not in ("", " ")), 0)
        text = "\n".join(lines[frames:])
    text = text.rpartition("\nCaused by: ")[2]
    ends = [text.find(mark) for mark in _STACK if mark in text]
    return text[: min(ends, default=len(text))].strip()
