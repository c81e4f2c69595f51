"""What TL113 alone asks of code, and its fixes."""
