"""The public functions that need everything: `load`, which exports on first use, and `predict`."""
