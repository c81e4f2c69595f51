"""What TL107 alone asks of code, and its fixes."""
