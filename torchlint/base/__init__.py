"""Plain values that every other part speaks in. Standard library only."""
