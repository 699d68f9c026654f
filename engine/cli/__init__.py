"""The program: its commands and their options call the library and print."""

INTERRUPTED = 130  # the exit status of a command that the user has stopped
