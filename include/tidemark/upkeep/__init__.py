"""Acts on checkpoints and tables between runs: what may go is planned purely, and then removed."""
