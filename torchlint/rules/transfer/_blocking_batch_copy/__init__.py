"""What TL103 alone asks of code, and its fixes."""
