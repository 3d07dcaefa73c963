"""What a cluster has to have before a run begins on it, and how an error says what it lacks."""
