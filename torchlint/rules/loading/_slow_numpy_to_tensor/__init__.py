"""TL207: which lists hold NumPy arrays."""
