"""Which of the JVM's flags a run gets, by how much there is to read."""

from __future__ import annotations

import pytest

from tidemark.pipeline.settings.jvm import LARGE_BYTES, jvm_variables

LOCALE = {"LANG": "en_US.UTF-8"}
FLAGS = {"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx1g", **LOCALE}


def test_a_large_input_gets_both_compilers_and_keeps_all_other_flags() -> None:
    assert jvm_variables(FLAGS, LARGE_BYTES) == {"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -Xmx1g"}


def test_a_small_input_changes_nothing() -> None:
    assert jvm_variables(FLAGS, LARGE_BYTES - 1) == {}


def test_flags_that_are_not_those_of_set_up_stay() -> None:
    assert jvm_variables(LOCALE, LARGE_BYTES) == {}
    other = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=3", **LOCALE}
    assert jvm_variables(other, LARGE_BYTES) == {}


@pytest.mark.parametrize(
    "environment",
    [{}, {"LANG": "C"}, {"LC_ALL": "POSIX", "LANG": "de_AT.UTF-8"}, {"LC_CTYPE": "de_AT@euro"}],
)
def test_a_locale_without_utf8_is_replaced_by_one_with_it(environment: dict[str, str]) -> None:
    assert jvm_variables(environment, 0) == {"LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize(
    "environment", [{"LANG": "C.utf8"}, {"LC_ALL": "", "LC_CTYPE": "de_AT.UTF-8", "LANG": "C"}]
)
def test_a_locale_of_utf8_stays(environment: dict[str, str]) -> None:
    assert jvm_variables(environment, 0) == {}
