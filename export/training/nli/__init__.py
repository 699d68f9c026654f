"""Classifiers of sentence pairs: trained on RTE, SNLI or MNLI, with or without pairs that hold negation."""
