"""Floor 5: from edits of nodes, as rules give them, to edits of the text."""
