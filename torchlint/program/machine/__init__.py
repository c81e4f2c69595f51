"""Where it runs, and what keeps it there: the interpreter, copies, processes, and the sandbox
around them."""
