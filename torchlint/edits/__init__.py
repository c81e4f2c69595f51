"""From edits of nodes, as rules give them, to edits of the text."""
