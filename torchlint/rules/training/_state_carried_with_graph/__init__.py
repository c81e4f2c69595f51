"""What TL511 alone asks of code, and its fixes."""
