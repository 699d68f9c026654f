"""What every room needs: errors, safe reading and writing of files, printable text, the names of choices, versions."""
