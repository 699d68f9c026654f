"""The systems that are measured: one folder for each kind of work, one file for each system."""

LOOP, ROW, OURS = "PyTorch, loop", "PyTorch, mask row", "ours"  # every kind of work has them
