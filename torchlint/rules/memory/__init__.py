"""TL7xx: memory and the caching allocator."""
