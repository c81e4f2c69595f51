"""What TL106 alone asks of code, and its fixes."""
