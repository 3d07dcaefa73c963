"""The command `tidemark`: each command translates its arguments into a few calls."""
