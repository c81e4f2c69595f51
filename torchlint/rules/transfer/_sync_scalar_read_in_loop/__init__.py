"""TL101: how a read is put off, or made with others, and what needs it at once."""
