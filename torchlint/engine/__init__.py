"""Floor 6: one file: its rules, fixes and suppressions. Meets the rules only through the
catalogue."""
