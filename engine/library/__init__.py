"""Arguments and results of all run functions: a model and how to open it, run options, a run with its tables."""
