"""What TL911 alone asks of code, and its fixes."""
