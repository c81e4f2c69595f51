"""A finished `Report` as text, JSON, markdown and HTML."""
