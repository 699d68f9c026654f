"""Shared code of the commands: options, run commands, printing."""
