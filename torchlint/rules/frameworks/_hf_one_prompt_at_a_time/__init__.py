"""TL911: whether a prompt is made of one item of a loop over many."""
