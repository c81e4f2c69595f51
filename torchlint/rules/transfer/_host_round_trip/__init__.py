"""What TL104 alone asks of code, and its fixes."""
