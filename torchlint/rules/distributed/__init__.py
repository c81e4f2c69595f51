"""TL3xx: distributed and multi-GPU training."""
