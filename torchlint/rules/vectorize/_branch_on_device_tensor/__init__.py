"""What TL602 alone asks of code, and its fixes."""
