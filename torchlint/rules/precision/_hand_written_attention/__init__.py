"""What TL405 alone asks of code, and its fixes."""
