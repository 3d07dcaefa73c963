"""Joins of two pipelines' bronze, then windows: counted in both bronzes without Spark."""
