"""Sample data, and what makes more of it."""
