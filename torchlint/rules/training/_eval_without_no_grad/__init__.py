"""What TL501 alone asks of code, and its fixes."""
