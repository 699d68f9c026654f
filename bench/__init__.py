"""negengine.bench: the engine beside its baselines and beside the ceiling of the machine."""
