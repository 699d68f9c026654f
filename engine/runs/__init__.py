"""Long work in parts that can be resumed: stages, their one loop (`loop.py`), executors, the run folder, merging."""
