"""`tidemark new`: a pipeline file proposed from a sample of its rows."""
