"""TL409: which layer of a network runs right before which."""
