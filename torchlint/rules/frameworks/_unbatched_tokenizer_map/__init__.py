"""TL909: which calls of `map` tokenize a dataset row by row."""
