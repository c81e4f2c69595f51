"""One file: its rules, fixes and suppressions. Meets the rules only through the
catalogue."""
