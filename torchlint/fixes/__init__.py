"""What fixes are made of, and the repairs that several rules offer."""
