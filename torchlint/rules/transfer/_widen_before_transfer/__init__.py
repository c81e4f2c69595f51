"""TL110: the exact dtype of a tensor."""
