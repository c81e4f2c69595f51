"""From bytes on disk to a `Document`, and back."""
