"""From `changes` to gold: what publish plans and does, and what gold then says of itself."""
