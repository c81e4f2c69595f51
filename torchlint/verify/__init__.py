"""Floor 6: before against after. The parent process uses the standard library only; torch runs in child processes."""
