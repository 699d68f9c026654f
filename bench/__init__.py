"""negengine.bench: the engine beside its peers and beside the ceiling of the machine."""
