"""What TL512 alone asks of code, and its fixes."""
