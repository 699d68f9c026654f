"""Negation cues in running text, found by a list of words or by a trained model (section 4 of the NLI paper)."""
