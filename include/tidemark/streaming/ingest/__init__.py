"""From the files of a source to bronze and rejects: each row is judged once."""
