"""Texts read by a datetime pattern come to the instant that Spark's try_to_timestamp gives."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tidemark.judge.event_time import PatternReader
from tidemark.judge.instants import FIRST_MICROS, LAST_MICROS
from tidemark.pipeline.datetime_patterns import datetime_pattern
from tidemark.pipeline.event_time_formats import check_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's pattern, and one of Python's strftime that writes the same.
PATTERNS = {
    "dd/MMM/yyyy:HH:mm:ss Z": "%d/%b/%Y:%H:%M:%S %z",
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "yyyyMMdd'T'HHmmssX": "%Y%m%dT%H%M%SZ",
    "yyyy/MM/dd": "%Y/%m/%d",
    "MM/dd/yyyy hh:mm:ss a": "%m/%d/%Y %I:%M:%S %p",
    "M/d/yy H:m:s": "%m/%d/%y %H:%M:%S",
    "d MMMM yyyy HH:mm": "%d %B %Y %H:%M",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX": "%Y-%m-%dT%H:%M:%S.%f+01:00",
    "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]": "%Y-%m-%dT%H:%M:%S.%f",
    "yyyy-DDD HH:mm": "%Y-%j %H:%M",
    "dd.MM.yyyy kk:mm": "%d.%m.%Y %H:%M",
    "yyyy-MM-dd KK:mm a": "%Y-%m-%d %I:%M %p",
    "yyyy-MM-dd HH:mm VV": "%Y-%m-%d %H:%M Europe/Vienna",
    "yyyy-MM-dd HH:mm xx": "%Y-%m-%d %H:%M -0330",
    "'on' yyyy-MM-dd 'o''clock' HH": "on %Y-%m-%d o'clock %H",
    "MM/dd/yyyy HH:mm a": "%m/%d/%Y %I:%M %p",
    "dd.MM.yyyy kk:mm a": "%d.%m.%Y %H:%M %p",
    "MM/dd/yyyy HH:mm hh a": "%m/%d/%Y %H:%M %I %p",
    "yyyy-MM-dd DDD": "%Y-%m-%d %j",
    "yyyy-MM-dd a": "%Y-%m-%d %p",
}
ZONE = "Europe/Vienna"
SPOILS = ("", " ", "x", "0", "24", "60", "31", "-", "+", ":", "Z", "am", "February", "2026")


def texts_of(written: str, chance: random.Random) -> list[str]:
    """Right ones, and ones with a piece taken out, put in or exchanged."""
    first, texts = datetime(1970, 1, 2, tzinfo=UTC), []
    for _ in range(60):
        instant = first + timedelta(seconds=chance.randrange(2_000_000_000))
        text = instant.strftime(written)
        texts += [text, text.lower(), text.upper()]
        for _ in range(3):
            place, length = chance.randrange(len(text) + 1), chance.randrange(3)
            texts.append(text[:place] + chance.choice(SPOILS) + text[place + length :])
    return texts


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_is_the_instant_that_spark_reads(spark: SparkSession, pattern: str) -> None:
    from pyspark.sql import functions as F

    texts = texts_of(PATTERNS[pattern], random.Random(pattern))
    parsed = F.try_to_timestamp("text", F.lit(pattern))
    if not datetime_pattern(pattern).tells_zone:
        parsed = F.to_utc_timestamp(parsed, ZONE)
    # No reader of the table could show a year before the first or after 9999.
    parsed = F.when(F.unix_micros(parsed).between(FIRST_MICROS, LAST_MICROS), parsed)
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    by_spark = rows.select("text", F.unix_micros(parsed).alias("micros")).collect()
    reader = PatternReader(pattern, ZoneInfo(ZONE))
    ours = {text: reader.micros(text) for text in texts}
    optional = "[" in pattern
    differ = [
        (row["text"], row["micros"], ours[row["text"]])
        for row in by_spark
        # A text that leaves an optional zone out has the stated one here, the session's there.
        if row["micros"] != ours[row["text"]] and not (optional and row["micros"] is not None)
    ]
    assert differ == []
    assert sum(value is not None for value in ours.values()) >= 60


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("yyyy-MM-dd HH:mm z", "write an offset"),
        ("yyyy-MM-dd G", "has the letter G"),
        ("yyyyy-MM-dd", "has yyyyy, which is not read here; allowed: y, yy, yyyy"),
        ("yyyy-MM-dd O", "write an offset"),
        ("EEE dd MMM yyyy", "has the letter E"),
    ],
)
def test_a_pattern_that_would_be_read_differently_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_format(pattern)
