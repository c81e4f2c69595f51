"""Floor 5: runs rules over documents. Meets the rules only through the catalogue's folder walk."""
