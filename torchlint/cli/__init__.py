"""Floor 10: the command line, one file per command."""
