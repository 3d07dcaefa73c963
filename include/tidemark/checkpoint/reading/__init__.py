"""What is in a checkpoint, as frozen facts: nothing is judged here, and nothing is changed."""
