"""The page: how pipelines, tables and rejects stand, in a browser. It only reads."""
