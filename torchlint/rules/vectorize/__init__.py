"""TL6xx: Python control flow where a tensor operation belongs."""
