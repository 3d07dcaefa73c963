"""Event-time windows: how rows fall into them, which are late, ranges of them, their seal."""
