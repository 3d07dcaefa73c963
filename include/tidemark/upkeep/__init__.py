"""Acts on checkpoints: what may go is planned purely, and then removed."""
