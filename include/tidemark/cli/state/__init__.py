"""`tidemark state`: what the state stores of a query hold, and what the next start replays."""
