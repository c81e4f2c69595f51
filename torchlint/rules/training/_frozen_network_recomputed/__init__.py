"""TL512: which networks are never trained, and run on the same in each step."""
