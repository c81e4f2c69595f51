"""What a thing is and where it lives: abstract interpretation of functions."""
