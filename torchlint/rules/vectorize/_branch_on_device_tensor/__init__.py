"""TL602: which tests of a tensor can go, and their fixes."""
