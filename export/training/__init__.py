"""Training with transformers' Trainer: classifiers of sentence pairs, detectors of negation cues.

The engine does not import this package, except in the commands that train. Model, optimiser, loop and checkpoints are
the libraries'. This package adds what a user of a run expects: a folder with an identity, a lock, resuming, progress,
and errors of one line.
"""
