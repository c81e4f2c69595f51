"""One file is one rule; the folder is its family, the hundreds digit of its code."""
