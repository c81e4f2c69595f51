"""What torch does and what things are called: tables, and nothing that looks at a program."""
