"""Requests to a model, and metrics of their answers."""
