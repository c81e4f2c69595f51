"""Rule pages, the README table and other prose printed from the rules themselves."""
