"""What TL115 alone asks of code, and its fixes."""
