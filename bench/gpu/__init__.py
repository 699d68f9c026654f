"""`make gpu`: everything that needs a CUDA device, measured in one command, as one JSON file.

Each step runs in a process of its own with a limit of time, so a step that fails, crashes or hangs does not stop the
others. With `--rehearse` all steps run on the CPU with little work.
"""
