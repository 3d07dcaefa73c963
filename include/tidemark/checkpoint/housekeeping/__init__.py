"""The files of a checkpoint that no restart needs: planned purely, and then removed."""
