"""TL4xx: precision and kernels."""
