"""Finished runs: compared, verified, and brought into a paper.

`comparison` is of models, patterns and targets, `verification` of a run or a model, `report` leads from a run to the
paper, and `suite` runs models × probes × settings from one file.
"""
