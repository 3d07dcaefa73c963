"""Which closed windows a run computes again, and what it then appends to `changes`."""
