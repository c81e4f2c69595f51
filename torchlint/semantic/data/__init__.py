"""Loaders, datasets and samples, and the frameworks that handle them."""
