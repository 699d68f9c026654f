"""What every run function takes and gives: a model and how to open it, run options, a run with its tables."""
