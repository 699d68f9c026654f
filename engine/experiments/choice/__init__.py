"""Choices among candidates: `choice.py` has options and results, `choice_columns.py` the forms of tables."""
