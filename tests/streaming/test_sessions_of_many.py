"""Sessions of one engine, one after the other; and several runs in them, of which some fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from threading import enumerate as threads
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import Place, clicks
from tidemark.errors import ClusterBusy, TidemarkError
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.spark import OF_A_PROCESS, TUNABLE
from tidemark.runs.requests import StreamRequest
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result
from tidemark.streaming.engine.sessions import end_session, is_gone, make_default, session_beside
from tidemark.streaming.jobs import many
from tidemark.streaming.jobs.many import SharedEngine, run_all

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def first(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    make_default(spark)


def test_nothing_of_a_session_is_in_the_next_one(first: SparkSession) -> None:
    before = first.conf.get(PARTITIONS)
    one = session_beside(first, {PARTITIONS: "7", "spark.sql.of_ours": "so"})
    assert one.conf.get(PARTITIONS) == "7"
    assert SparkSession.getActiveSession() is one
    one.range(1).createOrReplaceTempView("mine")
    one.udf.register("mine", lambda: 1, "long")
    end_session(one)
    other = session_beside(first, {})
    assert other.conf.get(PARTITIONS) == first.conf.get(PARTITIONS) == before
    assert "spark.sql.of_ours" not in other.conf.getAll
    assert other.catalog.listTables() == []
    assert not other.catalog.functionExists("mine")
    assert SparkSession.getActiveSession() is other
    default: Any = SparkSession._get_j_spark_session_class(other._jvm).getDefaultSession()
    assert default.get().equals(other._jsparkSession)


def test_a_query_that_runs_on_is_stopped_with_its_session(
    first: SparkSession, tmp_path: Path
) -> None:
    session = session_beside(first, {})
    rows = session.readStream.format("rate").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    assert query.isActive
    end_session(session)
    assert not query.isActive


def test_no_thread_waits_on_the_functions_of_queries_whose_session_has_ended(
    first: SparkSession, tmp_path: Path
) -> None:
    def nothing(_: DataFrame, __: int) -> None: ...

    def run(number: int) -> None:
        rows = session.readStream.format("rate").load()
        place = str(tmp_path / str(number))
        writer = rows.writeStream.foreachBatch(nothing)
        writer.option("checkpointLocation", place).trigger(once=True).start().awaitTermination()

    session = session_beside(first, {})
    # Starts what listens for all of them.
    run(0)
    end_session(session)
    before = {*threads()}
    for number in range(1, 4):
        run(number)
    new = {*threads()} - before
    assert len(new) == 3
    end_session(session)
    for thread in new:
        thread.join(HUNG_SECONDS)
    assert not any(thread.is_alive() for thread in new)
    # And the next one gets a connection of its own.
    run(4)


def test_a_query_that_cannot_be_stopped_keeps_nothing_else_of_its_session(
    first: SparkSession, tmp_path: Path
) -> None:
    # Milliseconds until Spark gives a stop up.
    session = session_beside(first, {"spark.sql.streaming.stopTimeout": "1"})
    session.range(1).createOrReplaceTempView("cached")
    session.catalog.cacheTable("cached")
    began, may_end = Event(), Event()

    def stuck(_: DataFrame, __: int) -> None:
        began.set()
        may_end.wait(HUNG_SECONDS)

    rows = session.readStream.format("rate").load()
    query = rows.writeStream.foreachBatch(stuck).option("checkpointLocation", str(tmp_path)).start()
    try:
        assert began.wait(HUNG_SECONDS)
        with pytest.raises((Py4JError, PySparkException)):
            query.stop()
        end_session(session)
        assert not session.catalog.isCached("cached")
    finally:
        may_end.set()


def test_by_sparks_word_each_session_has_what_pipelines_may_change_but_the_process(
    first: SparkSession,
) -> None:
    session, refused = session_beside(first, {}), set()
    for name in TUNABLE:
        try:
            session.conf.set(name, _value(session, name))
        except PySparkException:
            refused.add(name)
    assert refused == {
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.executor.memoryOverhead",
        "spark.cores.max",
    }
    # The others among them are read by the first query of the process, which Spark does not say.
    assert refused < OF_A_PROCESS < TUNABLE


def _value(session: SparkSession, name: str) -> str:
    try:
        return session.conf.get(name) or "1"
    except PySparkException:
        return "1"


class Engine(SharedEngine):
    """Ends after so many runs; each is asked for a session, and gets an error."""

    ends_after = 99
    asked: int = 0

    def session_of(self, pipeline: Pipeline, settings: Settings) -> SparkSession:
        self.asked += 1
        raise RuntimeError(f"no session for {pipeline.name}")

    def is_gone(self) -> bool:
        return self.asked >= self.ends_after


def requests(root: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> list[StreamRequest]:
    found = []
    for name in names:
        place = Place(root, clicks(), name)
        place.write_file()
        found.append(StreamRequest(pipeline=name, run_id="x", result=place.places.result("x")))
    for name, value in Place(root).variables.items():
        monkeypatch.setenv(name, value)
    (root / "landing").mkdir()
    return found


def error_of(root: Path, name: str) -> str | None:
    result = read_result(RunResult, Place(root, name=name).places.result("x"), {})
    return result.error.type if result.error else None


def test_what_fails_is_its_own_result_and_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = requests(tmp_path, monkeypatch, "a", "b", "c")
    (tmp_path / "pipelines" / "b.yaml").write_text("source: {}\n")
    assert run_all(asked, Engine("tests")) == 1
    found = [error_of(tmp_path, name) for name in ("a", "b", "c")]
    assert found == ["RuntimeError", "PipelineFileInvalid", "RuntimeError"]


def test_after_the_engine_s_end_nothing_more_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = requests(tmp_path, monkeypatch, "a", "b", "c")
    engine = Engine("tests")
    engine.ends_after = 2
    assert run_all(asked, engine) == 75
    assert engine.asked == 2
    assert not Path(Place(tmp_path, name="c").places.result("x")).exists()
    assert "Spark has ended, so these were not run: c" in capsys.readouterr().err


def test_a_spark_that_does_not_start_is_started_once_and_told_to_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def start(name: str, conf: object, settings: Settings) -> SparkSession:
        tried.append(name)
        raise ClusterBusy("no executor")

    monkeypatch.setattr(many, "checked_session", start)
    engine, place = SharedEngine("two pipelines"), Place(Path("/unused"))
    for _ in range(2):
        with pytest.raises(TidemarkError, match="no executor"):
            engine.session_of(place.pipeline, place.settings)
    assert tried == ["two pipelines"]
    assert not engine.is_gone()


def test_an_engine_that_is_stopped_or_does_not_answer_is_gone() -> None:
    def with_context(context: object) -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=context))

    def broken() -> object:
        raise Py4JNetworkError("the other side is closed")

    running = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    stopped = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))
    assert not is_gone(with_context(running))
    assert is_gone(with_context(stopped))
    assert is_gone(with_context(None))
    assert is_gone(with_context(SimpleNamespace(sc=broken)))
