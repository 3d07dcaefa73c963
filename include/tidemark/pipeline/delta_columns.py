"""The columns that say where in a Delta table a row comes from."""

VERSION, FILE, ROW = "_version", "_file", "_row"
# Always in bronze, and known to expressions.
PLACE_TYPES = {VERSION: "long", FILE: "string", ROW: "long"}
