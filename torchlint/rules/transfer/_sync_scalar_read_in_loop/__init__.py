"""What TL101 alone asks of code, and its fixes."""
