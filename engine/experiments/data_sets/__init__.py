"""Data sets of other authors: where they are, and fetching them."""
