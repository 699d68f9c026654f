"""Comparing finished runs."""
