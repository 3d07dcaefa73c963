"""Benchmarks: each against a rival in the same run, told as ratios. See `make bench`."""
