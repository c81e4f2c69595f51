"""What TL601 alone asks of code, and its fixes."""
