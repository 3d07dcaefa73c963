"""`tidemark checkpoint`: what is in a checkpoint, and in what state it is."""
