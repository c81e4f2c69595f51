"""What TL909 alone asks of code, and its fixes."""
