"""Floor 7: the command line, one file per command."""
