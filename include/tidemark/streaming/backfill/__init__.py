"""Audits and backfills: windows of gold beside the same windows computed from bronze."""
