"""negengine.engine: what runs. Never imports torch, transformers or optimum."""
