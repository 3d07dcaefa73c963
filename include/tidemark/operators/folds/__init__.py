"""Folds: a user's Python class over a key's rows in the order of their event times."""
