"""Where a program's time goes, from the trace of a profiler."""
