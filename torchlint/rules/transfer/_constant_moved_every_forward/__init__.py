"""TL106: what is a constant that is moved in each step, and its fixes."""
