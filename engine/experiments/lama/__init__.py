"""Negated LAMA (Kassner and Schütze 2020)."""
