"""The contracts of a pipeline's queries: compared with its file before a run, and recorded."""
