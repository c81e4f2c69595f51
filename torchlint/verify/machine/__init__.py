"""What comparing asks of the machine: how even its times are, and copies as they were."""
