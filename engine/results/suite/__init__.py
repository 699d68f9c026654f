"""Suites: models × probes × settings from one file, run one after the other, with one table and one report of all."""
