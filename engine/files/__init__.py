"""Files that are written whole or not at all, and files that are read with care."""
