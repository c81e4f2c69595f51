"""TL511: which values one step hands to the next with their graph."""
