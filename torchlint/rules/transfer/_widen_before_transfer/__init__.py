"""What TL110 alone asks of code, and its fixes."""
