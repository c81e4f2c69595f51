"""Which rules there are, read from their files: ours and those of plugins, with their
manuals."""
