"""`tidemark try`: a pipeline run once over its first rows, below a root that is removed again."""
