"""Migrations: a table's next generation, computed from bronze."""
