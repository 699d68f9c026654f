"""The systems that are measured: one folder for each kind of work, one file for each system."""
