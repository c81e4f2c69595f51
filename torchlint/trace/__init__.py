"""What a profiler recorded of a program, read and counted; no torch, no GPU, and no rule.

Times are whole nanoseconds. What was not measured is None, never 0.
"""
