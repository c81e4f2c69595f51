"""What TL510 alone asks of code, and its fixes."""
