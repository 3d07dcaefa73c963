"""Which of the JVM's flags a run gets, by how much there is to read."""

from __future__ import annotations

from tidemark.pipeline.settings.jvm import LARGE_BYTES, jvm_variables

FLAGS = {"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx1g", "PATH": "/bin"}


def test_a_large_input_gets_both_compilers_and_keeps_all_other_flags() -> None:
    assert jvm_variables(FLAGS, LARGE_BYTES) == {"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -Xmx1g"}


def test_a_small_input_changes_nothing() -> None:
    assert jvm_variables(FLAGS, LARGE_BYTES - 1) == {}


def test_flags_that_are_not_those_of_set_up_stay() -> None:
    assert jvm_variables({}, LARGE_BYTES) == {}
    assert jvm_variables({"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=3"}, LARGE_BYTES) == {}
