"""What of a checkpoint no restart needs: planned purely, and then removed."""
