"""Judge a checkpoint by what was read from it: pure functions, no file is opened here."""
