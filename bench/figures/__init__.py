"""One module a figure: `measure` does it, and tells it as a `Figure`."""
