"""The page docs/damage.md: what the doctor says of each damage, and what the engine does.

    python -m tests.checkpoint.damage_table [NAME …]

does each damage of `damages.py` to a new copy, asks the doctor, restarts the query in one session
of Spark, and writes both answers to `data/damages.json` and the page. With names only those cases
are run, and the others kept.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.checkpoint import archives
from tests.checkpoint.archives import land_listed, unpack
from tests.checkpoint.damaged import diagnosis_of
from tests.checkpoint.damages import DAMAGES, Damage
from tests.checkpoint.restarts import restart
from tests.kit.running import REPOSITORY, session_for_tests
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.doctor.judge import QueryFacts

ANSWERS = Path(__file__).parent / "data" / "damages.json"
PAGE = REPOSITORY / "docs" / "damage.md"
_HEAD = """# Damage: what the doctor says, and what the engine does

Each line is one damage, done to a copy of a checkpoint that Spark 4.2.0 wrote: an aggregate by ten
minutes and a key over files, with a watermark, two partitions, eight batches and a clean end. First
comes what `tidemark checkpoint doctor` says without a JVM, then what Spark 4.2.0 did when the query
was started on that copy with one more file. *Right* and *wrong* compare each window that it emitted
with a batch query over all files. Checksum files go with their files, unless the line says
otherwise: on object storage there are none.

`python -m tests.checkpoint.damage_table` makes this page from real runs, and the tests hold both
halves to it.

| damage | verdict | findings | the engine | it says |
|---|---|---|---|---|
"""
_TAIL = """
## Where the two differ

The doctor calls a checkpoint damaged where a start stops, or may go on wrongly, now or later. So
these are meant:

"""
# Why the doctor says something else than one start on this query shows; the tests hold it to these.
DIFFERENT: dict[str, str] = {
    "metadata-other": "the engine compares no ids, but a Delta sink knows batches by them: it "
    "skips new ones, or takes old ones again. The sink of these runs knows no ids.",
    "delta-checksum": "what was cut here comes after the last row. The engine was seen to read "
    "local files whatever the checksum beside them says; the doctor says that they are not what "
    "was written.",
    "checksum-alone": "as before: nothing was changed here, but nothing in the file could tell.",
    "snapshot-empty": "Spark 4.2 takes the deltas instead, by itself; an older version stops. The "
    "finding says so, and what to move away.",
    "snapshot-cut": "as before.",
    "state-ahead-snapshot": "one start does no harm. Once the query's own versions come to that "
    "number, a later start loads this snapshot, without an error and with wrong sums.",
    "state-ahead-delta": "it shows another writer, or a rewind that was not finished.",
    "source-changed": "the engine reads no file twice, so what was added is in no batch. The "
    "checkpoint itself is whole, so this is a warning.",
    "watermark-ahead": "the engine does what it was told: all rows are late. It is a warning, with "
    "the distance, as only people know what time the data has.",
}
# Verdicts after which a query may be started.
_GOES_ON = (
    CheckpointVerdict.NEW,
    CheckpointVerdict.CLEAN_END,
    CheckpointVerdict.NO_DATA_BATCH,
    CheckpointVerdict.KILLED,
)


def main(names: list[str]) -> int:
    """Run the cases and write the page."""
    found = answers() if names and ANSWERS.exists() else {}
    spark = session_for_tests()
    with tempfile.TemporaryDirectory() as folder:
        for name in names or DAMAGES:
            found[name] = doctors_half(DAMAGES[name], Path(folder) / name) | {
                "engine": engines_half(spark, DAMAGES[name], Path(folder) / name)
            }
            print(name, json.dumps(found[name]), flush=True)
    spark.stop()
    ordered = {name: found[name] for name in DAMAGES if name in found}
    ANSWERS.write_text(json.dumps(ordered, indent=1) + "\n")
    PAGE.write_text(page(ordered))
    return 0


def answers() -> dict[str, Any]:
    """Both halves, by damage, as they were last recorded."""
    return dict(json.loads(ANSWERS.read_text()))


def doctors_half(damage: Damage, folder: Path) -> dict[str, Any]:
    """Damage a new copy in `folder` and ask the doctor."""
    checkpoint = unpack(damage.base, folder)
    land_listed(checkpoint)
    damage.act(checkpoint)
    told = diagnosis_of(checkpoint, QueryFacts(query_ids=(archives.answers(damage.base)["id"],)))
    findings = sorted(f"{one.severity}: {one.kind}" for one in told.findings)
    return {
        "verdict": f"{told.verdict}"
        + (f" {told.batch}" if told.verdict is CheckpointVerdict.KILLED else ""),
        "findings": list(dict.fromkeys(findings)),
    }


def engines_half(spark: Any, damage: Damage, folder: Path) -> dict[str, Any]:
    """Start the query on the copy that `doctors_half` damaged."""
    return restart(spark, folder / "checkpoint", damage.base.partition("/")[2]).as_json()


def agree(said: dict[str, Any]) -> bool:
    """Does the engine go on rightly where the doctor lets a query start, and nowhere else? A
    verdict of unknown agrees with all."""
    if said["verdict"] == CheckpointVerdict.UNKNOWN:
        return True
    may_start = any(said["verdict"].startswith(one) for one in _GOES_ON)
    return bool(may_start == (said["engine"]["result"] == "right"))


def page(found: dict[str, Any]) -> str:
    """The page that tells these answers."""
    lines = [_line(DAMAGES[name].title, one) for name, one in found.items()]
    why = [f"- *{DAMAGES[name].title}*: {told}" for name, told in DIFFERENT.items()]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL + "\n".join(why) + "\n"


def _line(title: str, said: dict[str, Any]) -> str:
    findings = "<br>".join(one for one in said["findings"]) or "–"
    engine = said["engine"]
    ran = f" after batches {engine['batches']}" if engine["ends"] == "stops" else ""
    ran = ran if engine["batches"] else ""
    ends = engine["ends"] + ran
    if engine["ends"] == "goes on":
        ends = f"goes on, {engine['result']}; batches {', '.join(map(str, engine['batches']))}"
    words = f"`{engine['said']}`" if engine["said"] else "–"
    return f"| {title} | {said['verdict']} | {findings} | {ends} | {words} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
