"""Script mode: a whole program, its copies run by run."""
