"""TL103: where a batch comes from, and what the host does while it is copied."""
