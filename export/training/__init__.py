"""Training with transformers' Trainer: classifiers of sentence pairs, detectors of negation cues.

The engine does not train and does not import this package, except in the commands that ask for it. Everything that is
not special to a task is the libraries': model, optimiser, loop, checkpoints. This package adds what a user of a run
expects: a folder with an identity, a lock, resuming, progress, and errors of one line.
"""
