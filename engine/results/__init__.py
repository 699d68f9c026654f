"""Finished runs: compared, verified, and brought into a paper."""
