"""Programs of the user, run in copies of their project. Knows nothing of the linter.

`command` is what the user typed; ``machine`` is where it runs, and what keeps it there; ``inside``
is what the user's interpreter runs.
"""
