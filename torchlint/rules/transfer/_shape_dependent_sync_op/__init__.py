"""TL107: what becomes of what a mask selects, and fixes without its size."""
