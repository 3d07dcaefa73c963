"""Foreign checkpoints taken back to a batch, repaired, and brought back from the backup of both.

1. Read: one listing, and what a start would find of it were only the earlier batches there.
2. Plan: what goes, what is written, and what becomes of the sink; pure, and refused with reasons.
3. Begin: a backup of all, then a stop mark in the offset log, on which no query starts.
4. Finish: the sink, the files, the doctor's judgement, and the stop mark goes.

Killed in 4, the stop mark leads to the backup, and that to the plan: a repetition finishes it.
"""
