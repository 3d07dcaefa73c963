"""Gold: its frontier and pins, what a publish changes, publish itself, retention, reading."""
