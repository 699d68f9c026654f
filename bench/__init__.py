"""negengine.bench: the engine beside its baselines and beside the ceiling of the machine.

A command's items and the systems that do them are one file each: `likelihood.py`, `probe.py`, and `run.py` for the main
job, whose baselines are in `baselines.py`. `rounds.py` times them in processes of their own.
"""
