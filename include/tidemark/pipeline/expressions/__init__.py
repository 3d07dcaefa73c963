"""Spark SQL in pipeline files: parsed, typed and checked without Spark."""
