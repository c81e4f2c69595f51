"""What TL102 alone asks of code, and its fixes."""
