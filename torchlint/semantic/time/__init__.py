"""How often code runs, and whether autograd records it."""
