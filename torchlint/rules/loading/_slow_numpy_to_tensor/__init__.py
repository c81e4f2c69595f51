"""What TL207 alone asks of code, and its fixes."""
