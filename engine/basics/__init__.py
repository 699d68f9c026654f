"""What every room needs: errors, safe reading and writing of files, printable text, the names of choices, versions.

Files are written whole or not at all (`atomic`), those that are read are regular and of a bounded size (`reading`), and
JSON can carry its own digest (`sealed`).
"""
