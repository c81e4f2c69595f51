"""What the code means: a `Module` is one file's text, tree and names, and what rules ask of it are
questions, functions ``(module, ...)`` in the folders here."""
