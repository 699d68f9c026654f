"""Training detectors of negation cues: `negengine cues train`."""
