"""Suites: models × experiments × settings from one file, one run after the other, one table and one report."""
