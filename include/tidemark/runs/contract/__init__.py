"""The contract of a query: what it was started with, and what a changed pipeline does to it."""
