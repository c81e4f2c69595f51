"""What TL409 alone asks of code, and its fixes."""
