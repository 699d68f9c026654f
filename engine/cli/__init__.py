"""Commands: parse, call the library, print."""

INTERRUPTED = 130  # the exit status of a command that the user has stopped
