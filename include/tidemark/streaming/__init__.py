"""Spark: session, ingest, aggregate. The only package that imports pyspark."""
