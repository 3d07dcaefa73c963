"""Generations: what a changed table takes over from the one before, and how a migration is told."""
