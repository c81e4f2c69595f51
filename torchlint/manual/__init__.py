"""Floor 6: rule pages, the README table and other prose printed from the rules themselves."""
