"""What is in files: each format as the JSON lines that its records would be."""
