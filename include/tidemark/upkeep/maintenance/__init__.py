"""Maintenance of tables and files between runs: planned purely, and then carried out."""
