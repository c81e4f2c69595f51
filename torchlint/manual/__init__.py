"""Floor 7: rule pages, the README table and other prose printed from the rules themselves."""
