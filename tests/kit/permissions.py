"""Obey file permissions in processes that a test starts, also where the tests run as root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

# linux/prctl.h and linux/capability.h
_DROP_FROM_BOUNDING_SET = 24
_READ_ANYTHING = (1, 2)


@contextmanager
def thread_obeying_permissions() -> Iterator[ThreadPoolExecutor]:
    """A thread whose processes obey file permissions, also where the tests run as root.

    Root reads everything by two capabilities. A thread that drops them from its bounding set
    starts processes without them, and the other threads keep theirs.
    """
    with ThreadPoolExecutor(1) as thread:
        if os.geteuid() == 0 and not all(thread.map(_drop, _READ_ANYTHING)):
            pytest.skip("runs as root, and may not give up root's right to read everything")
        yield thread


def _drop(capability: int) -> bool:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0) == 0)
