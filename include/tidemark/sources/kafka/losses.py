"""What was lost of topics, in words: how much, since when, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.errors import InputLost
from tidemark.pipeline.reasons import CUT_OFF, DELETED, EXPIRED
from tidemark.sources.kafka.planning import KafkaGap
from tidemark.sources.source import LostInput

_MOST_SHOWN = 5


def told(lost: KafkaGap, since: str) -> LostInput:
    """A loss. `since`: when the last batch was planned, as people write it."""
    where = f"partition {lost.range.partition} of topic {lost.range.topic}"
    if lost.range.last is None:
        what = f"What came to {where} from offset {lost.range.first} on"
    elif lost.range.number == 1:
        what = f"1 offset of {where} ({lost.range.first})"
    else:
        offsets = f"{lost.range.first} to {lost.range.last}"
        what = f"{lost.range.number:,} offsets of {where} ({offsets})"
    planned = "planned and not read" if lost.was_planned else "not read"
    was = f"was last read at {since}"
    if lost.reason == EXPIRED:
        why = f"expired before being read: the oldest that is kept is {lost.kept}"
    elif lost.reason == CUT_OFF:
        why = f"cut off by the cluster: the partition now ends before offset {lost.kept}"
    elif lost.reason == DELETED:
        why = f"went with the topic, which was deleted; {planned}"
    else:
        why = (
            f"went with the topic of id {lost.id or '(none)'}, which was deleted; another topic of "
            f"that name stands there now; {planned}"
        )
    is_another = lost.reason not in (EXPIRED, CUT_OFF)
    return LostInput(str(lost.range), lost.reason, f"{what} {why}. The topic {was}", is_another)


def input_lost(pipeline: str, lost: Sequence[KafkaGap], since: str) -> InputLost:
    """The error of a run that stops at losses."""
    shown = [told(one, since).detail for one in lost[:_MOST_SHOWN]]
    more = f" And {len(lost) - _MOST_SHOWN} more." if len(lost) > _MOST_SHOWN else ""
    return InputLost(
        f"{'. '.join(shown)}.{more} Nothing of it was read, and nothing was written in its place: "
        "the run stopped. Restore the messages if you can. To go on without them, one reject for "
        f"each range: `tidemark accept {pipeline} --reason WHY`; of a topic that was made anew all "
        "is read then. To read from another point on, start a pipeline under a new name with "
        "source.kafka.starting."
    )
