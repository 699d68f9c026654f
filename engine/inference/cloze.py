"""The former name of `free_text`."""

from .free_text import MASK, log_softmax, logits_in_batches, slices

__all__ = ["MASK", "log_softmax", "logits_in_batches", "slices"]
