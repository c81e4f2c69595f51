"""Floor 1: plain values that every other part speaks in. Standard library only."""
