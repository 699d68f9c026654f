"""Finished runs against each other."""
