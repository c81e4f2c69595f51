"""TL5xx: the training loop and autograd."""
