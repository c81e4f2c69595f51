"""TL2xx: data loading."""
