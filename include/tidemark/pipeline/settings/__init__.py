"""Where and with what the platform works: the settings file, TIDEMARK_* variables, and what
follows from them."""
