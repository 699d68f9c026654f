"""The Self-Contained Negation Test: grid, selection, scores, rates."""
