"""What each task does, for whoever clicks on it in Airflow."""

from __future__ import annotations

TASK_DOCS = {
    "stream": """\
Reads what is new, judges each row, updates the windowed tables and repairs late rows; publishes
nothing yet. Spark is started only where there is something for it to do; where nothing is to be
published either, the tasks after it are skipped.

**Failed?** The log's last lines say why, and whether a retry can help. What was committed stays:
clear the task with those after it, or wait for the next run, which goes on from there.
""",
    "shared_stream": """\
Runs the pipelines of this Dag one after the other, and publishes what they changed; those that need
Spark share its start. Where a pipeline has nothing new, its tasks are skipped.

**Failed?** A job ended without any result. What was committed stays: clear the task, or wait for
the next run. An error of one pipeline is told by its own tasks.
""",
    "shared_result": """\
How the shared run of this pipeline ended, its Assets' events and gauges. Where the shared run left
no result, and when it is tried again after a failure, the pipeline runs alone here.

**Failed?** The log's last lines say why, and whether a retry can help. Clear the task, and the
pipeline runs again, without the others. Where it succeeded, that only tells its result again.
""",
    "validate": """\
Holds what publish would write to the pipeline's checks, without Spark.

**Failed?** Gold is as it was. The log names check, observed value and examples. Mend the data or
the check: the next good run publishes what is held, or accept it by hand with `tidemark publish
NAME --accept --reason "…"`.
""",
    "publish": """\
Brings what the stream computed into gold, in one commit for each table. Each table that changed
gets an Asset event with the range of its windows.

**Failed?** Gold is as it was. Clear the task, or wait: the next run publishes what this one left.
""",
    "checkpoint_housekeeping": """\
Removes the checkpoint files that no start of a query needs any more. Runs whatever became of the
tasks before.

**Failed?** Nothing that is needed was removed, and the next run does what is left. The log names
the checkpoint and says what is wrong with it.
""",
    "state_check": """\
Looks at what the next start of each query has to load; it only reads. Runs whatever became of the
tasks before.

**Failed?** The log says why. Where the state of a query cannot be rebuilt from its files, the next
run would fail too.
""",
    "compact_state": """\
Writes new snapshots of state, where the check before it says that they are due; skipped otherwise.

**Failed?** The state is as it was, unless the log says that it was compacted. Where the log says
that a retry cannot help, it names the setting that does.
""",
    "watcher": """\
Skipped where all went well. It fails where another task of the run failed, so that the run counts
as failed although the tasks after it went on.
""",
    "backfill": """\
Computes closed windows of the range again from accepted rows, and publishes those that differ, in
one commit, unless a check of the table keeps them back.

**Failed?** Gold is as it was, unless the log says that it was published. It can be run again.
""",
    "migrate": """\
Computes all windows of a table from accepted rows, and makes them its next generation, in one
commit of gold, unless a check of the table keeps them back.

**Failed?** Gold is as it was, and its generation goes on. It can be run again.
""",
    "rewind": """\
Takes the pipeline back to the end of a former run; what came since is read again by the next run.

**Failed?** The log says whether it was refused, and nothing changed, or ended in the middle: then
no run of the pipeline starts until it is finished (clear this task) or taken back (`undo`).
""",
    "retract": """\
Takes rows out of bronze that were a mistake, or brings them back; gold is computed without them.

**Failed?** The log says whether it was refused, and nothing changed, or ended in the middle: then
no run of the pipeline starts until it is finished: clear this task, or start it with `dry_run` off
and no rows named.
""",
}
