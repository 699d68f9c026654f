"""What commands are made of: shared options, run commands, printing."""
