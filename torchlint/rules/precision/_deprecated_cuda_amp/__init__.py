"""What TL408 alone asks of code, and its fixes."""
