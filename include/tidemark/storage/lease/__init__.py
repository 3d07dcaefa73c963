"""The lease of a pipeline: of all that would write to it, one run works at a time."""
