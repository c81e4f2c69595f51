"""Floor 2: from bytes on disk to a `Document`, and back."""
