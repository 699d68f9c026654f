"""The public functions that need everything: load, open, predict, merge."""
