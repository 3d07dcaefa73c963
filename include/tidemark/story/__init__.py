"""The story of a row of gold: which values it had, why, and of which rows of bronze it is made."""
