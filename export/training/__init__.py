"""Training with transformers' Trainer: classifiers of sentence pairs, detectors of negation cues.

This package adds what a user of a run expects: a folder with an identity, a lock, resuming, progress, errors of one
line. Only the commands that train import it, and only when they are called.
"""
