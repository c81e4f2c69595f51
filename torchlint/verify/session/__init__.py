"""The engine of a verification, the same for programs, functions and rules.

`wire` talks to processes, `timing` runs blocks in turns, `times` says what they show, `promise`
judges results.
"""
