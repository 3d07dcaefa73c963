"""What it means that a pipeline's file says something else of its topics."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.pipeline.difference import FROM_NOW, ChangeVerdict, Difference
from tidemark.pipeline.model import KafkaSource, Pipeline
from tidemark.pipeline.places import INGEST


def topic_changes(old: Pipeline, new: Pipeline) -> Iterator[Difference]:
    """Each with its verdict and the reason."""
    before, after = old.source, new.source
    assert isinstance(before, KafkaSource)
    assert isinstance(after, KafkaSource)
    was, now = before.kafka, after.kafka
    if (set(was.named), was.pattern) != (set(now.named), now.pattern):
        more = was.pattern is None and now.pattern is None and set(was.named) < set(now.named)
        verdict = ChangeVerdict.SAFE if more else ChangeVerdict.NOT_ALLOWED
        reason = (
            "Topics that are added are read from the first message that is kept"
            if more
            else "Bronze is the record of its topics: messages of those that are named no more "
            "and that were not read yet would be left out"
        )
        yield Difference(INGEST, "source.kafka", before.label, after.label, verdict, reason)
    if was.connection != now.connection:
        reason = (
            "A topic is known by its id: one of another cluster has another id, and runs stop at it"
        )
        yield _change("source.kafka.connection", was.connection, now.connection, reason)
    if was.starting != now.starting:
        reason = "Only the first run asks where to begin"
        yield _change("source.kafka.starting", was.starting, now.starting, reason)
    if was.isolation != now.isolation:
        reason = (
            "Messages of aborted transactions would be in bronze from some offset on, and before "
            "it not; nothing would tell where"
        )
        what, verdict = "source.kafka.isolation", ChangeVerdict.NOT_ALLOWED
        yield Difference(INGEST, what, was.isolation, now.isolation, verdict, reason)
    for name in ("offsets_without_record", "max_message_bytes"):
        if getattr(was, name) != getattr(now, name):
            yield _change(f"source.kafka.{name}", getattr(was, name), getattr(now, name), FROM_NOW)
    limit, other = (one.advanced.max_messages_per_batch for one in (old, new))
    if limit != other:
        yield _change("advanced.max_messages_per_batch", limit, other, FROM_NOW)


def _change(what: str, before: object, after: object, reason: str) -> Difference:
    return Difference(INGEST, what, str(before), str(after), ChangeVerdict.SAFE, reason)
