"""negengine.export: Hugging Face checkpoints to ONNX. The only place that imports torch, transformers and optimum."""
