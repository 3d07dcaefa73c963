"""Sessions of one engine, one after the other, each as if it were the only one.

A session of its own has its settings, its temporary views and functions, and its queries. Shared
are what belongs to the process: the tasks' threads and workers, what Spark caches, and the session
that code in the JVM takes where it was given none, which is changed along.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

# What a call of the engine raises, where that fails or is gone.
_FAULTS = (Py4JError, PySparkException, OSError)


def session_beside(first: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """A new session of the engine, with these settings: those of the process are as they are
    there. From now on it is the one of code that was given none."""
    session = first.newSession()
    there = session.conf.getAll
    for name, value in conf.items():
        if there.get(name) != value:
            session.conf.set(name, value)
    make_default(session)
    return session


def make_default(session: SparkSession) -> None:
    """Make it the session of code that was given none, here and in the JVM."""
    classes: Any = SparkSession._get_j_spark_session_class(session._jvm)
    classes.setDefaultSession(session._jsparkSession)
    classes.setActiveSession(session._jsparkSession)
    SparkSession._instantiatedSession = SparkSession._activeSession = session


def end_session(session: SparkSession) -> None:
    """End what a session may have left: queries that run still, and rows that are cached. What
    cannot be ended keeps nothing else from it; where the engine is gone all is gone too."""
    left: list[StreamingQuery] = []
    with suppress(*_FAULTS):
        left = session.streams.active
    for query in left:
        with suppress(*_FAULTS):
            query.stop()
    with suppress(*_FAULTS):
        session.catalog.clearCache()
    with suppress(*_FAULTS):
        _close_callbacks(session)


def _close_callbacks(session: SparkSession) -> None:
    """Close the connections by which the JVM's threads called functions of Python, and end the
    threads that wait on them here. Py4J keeps one for each query that there ever was: its
    `CallbackClient.periodicCleanup` closes those that nothing uses, but nobody calls it where each
    thread has a connection of its own (`PythonClient.setupCleaner`)."""
    gateway: Any = session.sparkContext._gateway
    JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient().periodicCleanup()


def is_gone(session: SparkSession) -> bool:
    """Has the engine of a session ended, or does it not answer any more?"""
    try:
        context: Any = session.sparkContext._jsc
        return context is None or bool(context.sc().isStopped())
    except _FAULTS:
        return True
