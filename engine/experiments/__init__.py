"""Experiments, one folder each: `negation` is the Self-Contained Negation Test; `data_sets` fetches others' data."""
