"""What crosses the bus between the host and the accelerator."""
