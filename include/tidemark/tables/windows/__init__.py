"""The windows of a table: how rows fall into them, ranges of them, and their values."""
