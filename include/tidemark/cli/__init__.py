"""The command `tidemark`: each command translates its arguments into a few calls.

What takes long to load (delta-rs, Arrow, DuckDB, Kafka's client, the readers of checkpoints) is
imported within the functions that use it: all other commands start without it.
"""
