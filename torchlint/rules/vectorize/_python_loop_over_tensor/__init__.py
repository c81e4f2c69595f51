"""TL601: what the body of a loop over elements does, and its vector form."""
