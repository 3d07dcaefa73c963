"""Folds under other hash seeds: in which order a set of texts comes depends on its process.

Runs fold under one seed (`streaming/session.py`), so that they come to the same everywhere. A class
whose outputs depend on it is refused all the same where somebody looks: another Python orders its
sets in another way. A process has its seed from its start, so each seed has a process of its own,
which lives as long as this one: it takes half a second to start.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from tidemark.errors import PipelineInvalid
from tidemark.operators.folds.folding import (
    FoldSpec,
    HeldRow,
    Output,
    agreed,
    keys_folded_anew,
    keys_folded_twice,
)
from tidemark.pipeline.fold_code import RUN_SEED

# That of runs, and another. Two texts come in the same order under both every other time, which is
# why this process's own is a third.
SEEDS = (RUN_SEED, "1")
_BY_SEED = "by the order of a set, which is that of the process's hash seed? Sort it"


def keys_folded_under_seeds(
    spec: FoldSpec, keys: Sequence[Sequence[HeldRow]], up_to: int | None
) -> list[list[Output]]:
    """The outputs of several keys, folded twice and under two hash seeds: those that differ are not
    deterministic.

    A class that cannot be made again elsewhere (one within a function, or a module of tests) is
    folded here alone. PipelineInvalid where it ends its process.
    """
    outputs = keys_folded_twice(spec, keys, up_to)
    if spec.given and not spec.again:
        return outputs
    asked = pickle.dumps((replace(spec, given=None), keys, up_to))
    processes = [_process(seed) for seed in SEEDS]
    for process in processes:
        _ask(process, asked)
    for process in processes:
        pairs = zip(outputs, _answer(process, spec), strict=True)
        outputs = [agreed(spec, one, other, _BY_SEED) for one, other in pairs]
    return outputs


@cache
def _process(seed: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What the class prints is said once, by this process; Ctrl-C is this one's, too.
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _ask(process: subprocess.Popen[bytes], asked: bytes) -> None:
    assert process.stdin is not None
    # One that has ended gives no answer.
    with suppress(BrokenPipeError):
        process.stdin.write(asked)
        process.stdin.flush()


def _answer(process: subprocess.Popen[bytes], spec: FoldSpec) -> list[list[Output]]:
    assert process.stdout is not None
    try:
        answer: list[list[Output]] = pickle.load(process.stdout)
    except EOFError:
        _process.cache_clear()
        raise PipelineInvalid(
            f"The fold {spec.python} ended the process that folded it, with the code "
            f"{process.wait()}."
        ) from None
    return answer


def main() -> None:
    """Fold what is asked for until nobody asks any more. What the class prints is no answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            spec, keys, up_to = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        found = keys_folded_anew(spec, keys, up_to)
        # An error may be of a class that the other process has not.
        plain = [[replace(one, error=None) for one in outputs] for outputs in found]
        pickle.dump(plain, answers)
        answers.flush()


if __name__ == "__main__":
    main()
